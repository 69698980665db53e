// Open files of a store, as RocksDB wants them.
#pragma once

#include <rocksdb/file_system.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "level.h"
#include "status.h"

namespace zoneweave {

using rocksdb::Env;
using rocksdb::FileOptions;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

// An open store. Files keep it open.
struct Store {
  explicit Store(zw_fs* opened) : fs(opened) {}
  ~Store() { zw_fs_close(fs); }
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  zw_fs* const fs;
  std::mutex mutex;
  std::set<zw_fs_writer*> logs;     // write-ahead logs open for writing, under the mutex

  // RocksDB goes on in a new log without syncing the one before. Once blocks of the new log are on the
  // drive, so are all of the older ones: a killed process leaves a prefix of the writes.
  IOStatus FlushLogs() {
    std::lock_guard<std::mutex> guard(mutex);
    for (zw_fs_writer* log : logs) {
      IOStatus status = Taken(zw_fs_flush(log));
      if (!status.ok()) return status;
    }
    return IOStatus::OK();
  }
};

using SharedStore = std::shared_ptr<Store>;

// A file open for reading.
class Source {
 public:
  Source(SharedStore store, zw_fs_reader* reader) : store_(std::move(store)), reader_(reader) {}
  ~Source() { zw_fs_reader_close(reader_); }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  static IOStatus Open(const SharedStore& store, const std::string& path,
                       std::unique_ptr<Source>* source) {
    zw_fs_reader* reader = nullptr;
    IOStatus status = Taken(zw_fs_open_file(store->fs, path.c_str(), &reader));
    if (status.ok()) source->reset(new Source(store, reader));
    return status;
  }

  IOStatus Read(uint64_t offset, size_t n, Slice* result, char* scratch) const {
    size_t count = 0;
    IOStatus status = Taken(zw_fs_read_at(reader_, offset, scratch, n, &count));
    *result = Slice(scratch, status.ok() ? count : 0);
    return status;
  }

  IOStatus Length(uint64_t* length) const { return Taken(zw_fs_reader_length(reader_, length)); }

  // Reads all of the file.
  IOStatus ReadAll(std::string* content) const {
    uint64_t length = 0;
    IOStatus status = Length(&length);
    if (!status.ok()) return status;
    content->resize(length);
    Slice read;
    status = Read(0, length, &read, &(*content)[0]);
    content->resize(read.size());
    return status;
  }

 private:
  const SharedStore store_;
  zw_fs_reader* const reader_;
};

class SequentialFile : public rocksdb::FSSequentialFile {
 public:
  SequentialFile(std::unique_ptr<Source> source, const FileOptions& options)
      : source_(std::move(source)), is_direct_(options.use_direct_reads) {}

  IOStatus Read(size_t n, const IOOptions&, Slice* result, char* scratch,
                IODebugContext*) override {
    IOStatus status = source_->Read(offset_, n, result, scratch);
    offset_ += result->size();
    return AsIOError(status);
  }
  IOStatus PositionedRead(uint64_t offset, size_t n, const IOOptions&, Slice* result,
                          char* scratch, IODebugContext*) override {
    return AsIOError(source_->Read(offset, n, result, scratch));
  }
  IOStatus Skip(uint64_t n) override {
    offset_ += n;
    return IOStatus::OK();
  }
  bool use_direct_io() const override { return is_direct_; }
  IOStatus InvalidateCache(size_t, size_t) override { return IOStatus::OK(); }

 private:
  const std::unique_ptr<Source> source_;
  const bool is_direct_;
  uint64_t offset_ = 0;
};

class RandomAccessFile : public rocksdb::FSRandomAccessFile {
 public:
  RandomAccessFile(std::unique_ptr<Source> source, const FileOptions& options)
      : source_(std::move(source)), is_direct_(options.use_direct_reads) {}

  IOStatus Read(uint64_t offset, size_t n, const IOOptions&, Slice* result, char* scratch,
                IODebugContext*) const override {
    return source_->Read(offset, n, result, scratch);
  }
  bool use_direct_io() const override { return is_direct_; }
  IOStatus InvalidateCache(size_t, size_t) override { return IOStatus::OK(); }

 private:
  const std::unique_ptr<Source> source_;
  const bool is_direct_;
};

// Stands in for a mapped file. RocksDB gives no memory to read into then (use_mmap_reads), and keeps
// the slices as long as the file: all of it is in memory.
class LoadedFile : public rocksdb::FSRandomAccessFile {
 public:
  explicit LoadedFile(std::string content) : content_(std::move(content)) {}

  IOStatus Read(uint64_t offset, size_t n, const IOOptions&, Slice* result, char*,
                IODebugContext*) const override {
    const size_t start = std::min<uint64_t>(offset, content_.size());
    *result = Slice(content_.data() + start, std::min(n, content_.size() - start));
    return IOStatus::OK();
  }

 private:
  const std::string content_;
};

class WritableFile : public rocksdb::FSWritableFile {
 public:
  WritableFile(SharedStore store, zw_fs_writer* writer, uint64_t size, bool is_log,
               const FileOptions& options)
      : FSWritableFile(options),
        store_(std::move(store)),
        writer_(writer),
        is_direct_(options.use_direct_writes),
        size_(size) {
    std::lock_guard<std::mutex> guard(store_->mutex);
    if (is_log) store_->logs.insert(writer_);
  }
  ~WritableFile() override {
    // RocksDB closes files whose contents matter.
    zw_fs_error_free(End());
  }

  using FSWritableFile::Append;
  using FSWritableFile::PositionedAppend;

  IOStatus Append(const Slice& data, const IOOptions&, IODebugContext*) override {
    IOStatus status = Taken(zw_fs_append(writer_, data.data(), data.size()));
    if (status.ok()) size_ += data.size();
    return status;
  }
  // Direct writers pad their last block, and write it again later, or cut it off.
  IOStatus PositionedAppend(const Slice& data, uint64_t offset, const IOOptions&,
                            IODebugContext*) override {
    IOStatus status = Taken(zw_fs_write_at(writer_, offset, data.data(), data.size()));
    if (status.ok()) size_ = offset + data.size();
    return status;
  }
  IOStatus PositionedAppend(const Slice& data, uint64_t offset, const IOOptions& options,
                            const rocksdb::DataVerificationInfo&, IODebugContext* dbg) override {
    return PositionedAppend(data, offset, options, dbg);
  }
  IOStatus Truncate(uint64_t size, const IOOptions&, IODebugContext*) override {
    // Buffered writers cut a file to the length that it has.
    if (size == size_) return IOStatus::OK();
    IOStatus status = Taken(zw_fs_truncate(writer_, size));
    if (status.ok()) size_ = size;
    return status;
  }
  IOStatus Close(const IOOptions&, IODebugContext*) override {
    return Taken(End());
  }
  // Appended bytes are in the store, where readers of the process find them. Only Sync makes them
  // durable.
  IOStatus Flush(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }
  IOStatus Sync(const IOOptions&, IODebugContext*) override { return Taken(zw_fs_sync(writer_)); }
  bool IsSyncThreadSafe() const override { return true; }
  bool use_direct_io() const override { return is_direct_; }
  void SetWriteLifeTimeHint(Env::WriteLifeTimeHint hint) override {
    const zw_fs_hints hints = HintsOf(static_cast<int>(hint));
    write_hint_ = static_cast<Env::WriteLifeTimeHint>(hints.lifetime);
    // Hints only improve the placement.
    zw_fs_error_free(zw_fs_set_hints(writer_, &hints));
  }
  uint64_t GetFileSize(const IOOptions&, IODebugContext*) override { return size_; }
  IOStatus InvalidateCache(size_t, size_t) override { return IOStatus::OK(); }

 private:
  zw_fs_error* End() {
    zw_fs_writer* const writer = std::exchange(writer_, nullptr);
    if (writer == nullptr) return nullptr;
    {
      std::lock_guard<std::mutex> guard(store_->mutex);
      store_->logs.erase(writer);
    }
    return zw_fs_writer_close(writer);
  }

  const SharedStore store_;
  zw_fs_writer* writer_;
  const bool is_direct_;
  std::atomic<uint64_t> size_;
};

// A file that is changed in place, of which a zoned drive has none: a copy in memory, which replaces
// the file at a sync. RocksDB writes sequence numbers into ingested tables this way. Other names of
// the file keep the old contents.
class RandomRWFile : public rocksdb::FSRandomRWFile {
 public:
  RandomRWFile(SharedStore store, std::string path, std::string content)
      : store_(std::move(store)), path_(std::move(path)), content_(std::move(content)) {}

  IOStatus Write(uint64_t offset, const Slice& data, const IOOptions&, IODebugContext*) override {
    const uint64_t end = offset + data.size();
    if (content_.size() < end) content_.resize(end);
    std::memcpy(&content_[offset], data.data(), data.size());
    is_changed_ = true;
    return IOStatus::OK();
  }
  IOStatus Read(uint64_t offset, size_t n, const IOOptions&, Slice* result, char* scratch,
                IODebugContext*) const override {
    const size_t start = std::min<uint64_t>(offset, content_.size());
    const size_t count = std::min(n, content_.size() - start);
    std::memcpy(scratch, content_.data() + start, count);
    *result = Slice(scratch, count);
    return IOStatus::OK();
  }
  IOStatus Flush(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }
  IOStatus Sync(const IOOptions&, IODebugContext*) override { return Replace(); }
  IOStatus Close(const IOOptions&, IODebugContext*) override { return Replace(); }

 private:
  IOStatus Replace() {
    if (!is_changed_) return IOStatus::OK();
    const std::string partial = path_ + ".rewritten";
    zw_fs_writer* writer = nullptr;
    IOStatus status = Taken(zw_fs_create(store_->fs, partial.c_str(), 0, nullptr, &writer));
    if (!status.ok()) return status;
    status = Taken(zw_fs_append(writer, content_.data(), content_.size()));
    if (status.ok()) status = Taken(zw_fs_sync(writer));
    const IOStatus closed = Taken(zw_fs_writer_close(writer));
    if (status.ok()) status = closed;
    if (status.ok()) status = Taken(zw_fs_rename(store_->fs, partial.c_str(), path_.c_str()));
    if (status.ok()) is_changed_ = false;
    return status;
  }

  const SharedStore store_;
  const std::string path_;
  std::string content_;
  bool is_changed_ = false;
};

// Changes of names are durable when they return.
class Directory : public rocksdb::FSDirectory {
 public:
  IOStatus Fsync(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }
  IOStatus Close(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }
};

}  // namespace zoneweave
