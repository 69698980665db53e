// RocksDB on a file store of Zoneweave: registers zoneweave://DRIVE[,DRIVE...][?OPTION=VALUE] as a
// file system and an environment, when this library is preloaded or linked.
//
// Invariants: nothing is written to standard error, which tools take for a failure, but damage that a
// start finds, and that a recording ended early. All file systems of a process that name the same store
// share one handle.

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <rocksdb/utilities/object_registry.h>

#include <iostream>
#include <map>

#include "files.h"

namespace zoneweave {

namespace {

constexpr char kName[] = "zoneweave";

class Lock : public rocksdb::FileLock {
 public:
  explicit Lock(zw_fs_writer* writer) : writer(writer) {}
  zw_fs_writer* const writer;
};

bool IsLog(const std::string& path) {
  const std::string end = ".log";
  return path.size() > end.size() && path.compare(path.size() - end.size(), end.size(), end) == 0;
}

class FileSystem : public rocksdb::FileSystem {
 public:
  FileSystem(SharedStore store, std::string uri) : store_(std::move(store)), uri_(std::move(uri)) {}

  const char* Name() const override { return kName; }
  // Options files name the file system by it.
  std::string GetId() const override { return uri_; }

  IOStatus NewSequentialFile(const std::string& path, const FileOptions& options,
                             std::unique_ptr<rocksdb::FSSequentialFile>* result,
                             IODebugContext*) override {
    std::unique_ptr<Source> source;
    IOStatus status = Source::Open(store_, path, &source);
    if (status.ok()) result->reset(new SequentialFile(std::move(source), options));
    return status;
  }

  IOStatus NewRandomAccessFile(const std::string& path, const FileOptions& options,
                               std::unique_ptr<rocksdb::FSRandomAccessFile>* result,
                               IODebugContext*) override {
    std::unique_ptr<Source> source;
    IOStatus status = Source::Open(store_, path, &source);
    if (!status.ok()) return status;
    if (!options.use_mmap_reads) {
      result->reset(new RandomAccessFile(std::move(source), options));
      return status;
    }
    std::string content;
    status = source->ReadAll(&content);
    if (status.ok()) result->reset(new LoadedFile(std::move(content)));
    return status;
  }

  IOStatus NewWritableFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* result,
                           IODebugContext*) override {
    const bool is_log = IsLog(path);
    IOStatus status = is_log ? store_->FlushLogs() : IOStatus::OK();
    zw_fs_writer* writer = nullptr;
    if (status.ok()) status = Taken(zw_fs_create(store_->fs, path.c_str(), 0, nullptr, &writer));
    if (status.ok()) result->reset(new WritableFile(store_, writer, 0, is_log, options));
    return status;
  }

  IOStatus ReopenWritableFile(const std::string& path, const FileOptions& options,
                              std::unique_ptr<rocksdb::FSWritableFile>* result,
                              IODebugContext* dbg) override {
    zw_fs_writer* writer = nullptr;
    zw_fs_error* error = zw_fs_append_to(store_->fs, path.c_str(), &writer);
    if (TakenIf(error, ZW_FS_NOT_FOUND)) return NewWritableFile(path, options, result, dbg);
    IOStatus status = Taken(error);
    if (!status.ok()) return status;
    uint64_t size = 0;
    status = Taken(zw_fs_writer_length(writer, &size));
    result->reset(new WritableFile(store_, writer, size, IsLog(path), options));
    return status;
  }

  IOStatus NewRandomRWFile(const std::string& path, const FileOptions&,
                           std::unique_ptr<rocksdb::FSRandomRWFile>* result,
                           IODebugContext*) override {
    std::unique_ptr<Source> source;
    std::string content;
    IOStatus status = Source::Open(store_, path, &source);
    if (status.ok()) status = source->ReadAll(&content);
    if (status.ok()) result->reset(new RandomRWFile(store_, path, std::move(content)));
    return status;
  }

  IOStatus NewDirectory(const std::string& path, const IOOptions&,
                        std::unique_ptr<rocksdb::FSDirectory>* result, IODebugContext*) override {
    zw_fs_stat stat;
    IOStatus status = Stat(path, &stat);
    if (!status.ok()) return status;
    if (!stat.is_directory) return IOStatus::IOError(path, "not a directory");
    result->reset(new Directory());
    return status;
  }

  IOStatus FileExists(const std::string& path, const IOOptions&, IODebugContext*) override {
    zw_fs_stat stat;
    zw_fs_error* error = zw_fs_stat_path(store_->fs, path.c_str(), &stat);
    return TakenIf(error, ZW_FS_NOT_FOUND, ZW_FS_NOT_A_DIRECTORY) ? IOStatus::NotFound(path)
                                                                  : Taken(error);
  }

  IOStatus GetChildren(const std::string& path, const IOOptions&, std::vector<std::string>* result,
                       IODebugContext*) override {
    result->clear();
    return List(path, [&](const char* name, const zw_fs_stat&) { result->push_back(name); });
  }

  IOStatus GetChildrenFileAttributes(const std::string& path, const IOOptions&,
                                     std::vector<rocksdb::FileAttributes>* result,
                                     IODebugContext*) override {
    result->clear();
    return List(path, [&](const char* name, const zw_fs_stat& stat) {
      result->push_back({name, stat.length});
    });
  }

  IOStatus DeleteFile(const std::string& path, const IOOptions&, IODebugContext*) override {
    return Taken(zw_fs_unlink(store_->fs, path.c_str()));
  }

  IOStatus Truncate(const std::string& path, size_t size, const IOOptions&,
                    IODebugContext*) override {
    zw_fs_writer* writer = nullptr;
    IOStatus status = Taken(zw_fs_append_to(store_->fs, path.c_str(), &writer));
    if (!status.ok()) return status;
    status = Taken(zw_fs_truncate(writer, size));
    const IOStatus closed = Taken(zw_fs_writer_close(writer));
    return status.ok() ? closed : status;
  }

  IOStatus CreateDir(const std::string& path, const IOOptions&, IODebugContext*) override {
    return Taken(zw_fs_mkdir(store_->fs, path.c_str()));
  }

  // Directories above it are made as well: a new store has none.
  IOStatus CreateDirIfMissing(const std::string& path, const IOOptions&, IODebugContext*) override {
    for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
      const std::string part = path.substr(0, end);
      zw_fs_error* error = zw_fs_mkdir(store_->fs, part.c_str());
      if (!TakenIf(error, ZW_FS_EXISTS)) {
        IOStatus status = Taken(error);
        if (!status.ok()) return status;
      }
      if (end == std::string::npos) break;
    }
    zw_fs_stat stat;
    IOStatus status = Stat(path, &stat);
    if (status.ok() && !stat.is_directory) return IOStatus::IOError(path, "not a directory");
    return status;
  }

  IOStatus DeleteDir(const std::string& path, const IOOptions&, IODebugContext*) override {
    return Taken(zw_fs_rmdir(store_->fs, path.c_str()));
  }

  IOStatus GetFileSize(const std::string& path, const IOOptions&, uint64_t* size,
                       IODebugContext*) override {
    zw_fs_stat stat = {};
    IOStatus status = Stat(path, &stat);
    *size = stat.length;
    return status;
  }

  IOStatus GetFileModificationTime(const std::string& path, const IOOptions&, uint64_t* seconds,
                                   IODebugContext*) override {
    zw_fs_stat stat = {};
    IOStatus status = Stat(path, &stat);
    *seconds = stat.modified;
    return status;
  }

  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions&,
                      IODebugContext*) override {
    return Taken(zw_fs_rename(store_->fs, from.c_str(), to.c_str()));
  }

  IOStatus LinkFile(const std::string& file, const std::string& name, const IOOptions&,
                    IODebugContext*) override {
    return Taken(zw_fs_link(store_->fs, file.c_str(), name.c_str()));
  }

  IOStatus NumFileLinks(const std::string& path, const IOOptions&, uint64_t* count,
                        IODebugContext*) override {
    zw_fs_stat stat = {};
    IOStatus status = Stat(path, &stat);
    *count = stat.links;
    return status;
  }

  IOStatus AreFilesSame(const std::string& first, const std::string& second, const IOOptions&,
                        bool* result, IODebugContext*) override {
    zw_fs_stat one = {}, other = {};
    IOStatus status = Stat(first, &one);
    if (status.ok()) status = Stat(second, &other);
    *result = status.ok() && one.id == other.id;
    return status;
  }

  // The store opens a file for one writer. The lock so holds for every path of the file, and between
  // the processes of a served store.
  IOStatus LockFile(const std::string& path, const IOOptions&, rocksdb::FileLock** lock,
                    IODebugContext*) override {
    *lock = nullptr;
    zw_fs_writer* writer = nullptr;
    zw_fs_error* error = zw_fs_create(store_->fs, path.c_str(), 1, nullptr, &writer);
    if (TakenIf(error, ZW_FS_EXISTS)) error = zw_fs_append_to(store_->fs, path.c_str(), &writer);
    IOStatus status = Taken(error);
    if (status.IsBusy()) return IOStatus::IOError("lock " + path, status.ToString());
    if (status.ok()) *lock = new Lock(writer);
    return status;
  }

  IOStatus UnlockFile(rocksdb::FileLock* lock, const IOOptions&, IODebugContext*) override {
    std::unique_ptr<Lock> ours(static_cast<Lock*>(lock));
    return Taken(zw_fs_writer_close(ours->writer));
  }

  IOStatus GetTestDirectory(const IOOptions& options, std::string* path,
                            IODebugContext* dbg) override {
    *path = "/rocksdbtest";
    return CreateDirIfMissing(*path, options, dbg);
  }

  IOStatus GetAbsolutePath(const std::string& path, const IOOptions&, std::string* result,
                           IODebugContext*) override {
    *result = path.empty() || path[0] != '/' ? "/" + path : path;
    return IOStatus::OK();
  }

  // Logs are appended in pieces of any size, also where tables are written directly.
  FileOptions OptimizeForLogWrite(const FileOptions& options,
                                  const rocksdb::DBOptions& db_options) const override {
    FileOptions optimized = rocksdb::FileSystem::OptimizeForLogWrite(options, db_options);
    optimized.use_direct_writes = false;
    return optimized;
  }
  FileOptions OptimizeForManifestWrite(const FileOptions& options) const override {
    FileOptions optimized = rocksdb::FileSystem::OptimizeForManifestWrite(options);
    optimized.use_direct_writes = false;
    return optimized;
  }

  IOStatus GetFreeSpace(const std::string&, const IOOptions&, uint64_t* free,
                        IODebugContext*) override {
    zw_fs_space space = {};
    IOStatus status = Taken(zw_fs_space_of(store_->fs, &space));
    // Garbage counts as free: it is reclaimed on demand.
    *free = space.capacity_bytes - std::min(space.live_bytes, space.capacity_bytes);
    return status;
  }

  IOStatus IsDirectory(const std::string& path, const IOOptions&, bool* result,
                       IODebugContext*) override {
    zw_fs_stat stat = {};
    IOStatus status = Stat(path, &stat);
    *result = stat.is_directory != 0;
    return status;
  }

 private:
  IOStatus Stat(const std::string& path, zw_fs_stat* stat) const {
    return Taken(zw_fs_stat_path(store_->fs, path.c_str(), stat));
  }

  // RocksDB takes any error of a missing directory but NotFound for a failure.
  template <typename Visit>
  IOStatus List(const std::string& path, Visit visit) const {
    zw_fs_entries* entries = nullptr;
    zw_fs_error* error = zw_fs_list(store_->fs, path.c_str(), &entries);
    if (TakenIf(error, ZW_FS_NOT_FOUND, ZW_FS_NOT_A_DIRECTORY)) return IOStatus::NotFound(path);
    IOStatus status = Taken(error);
    const size_t count = status.ok() ? zw_fs_entries_count(entries) : 0;
    for (size_t index = 0; index < count; index++) {
      zw_fs_stat stat = {};
      zw_fs_error_free(zw_fs_entries_stat(entries, index, &stat));
      visit(zw_fs_entries_name(entries, index), stat);
    }
    zw_fs_entries_free(entries);
    return status;
  }

  const SharedStore store_;
  const std::string uri_;
};

// The stores that are open in this process, by URI.
class Stores {
 public:
  static rocksdb::Status Open(const std::string& uri, SharedStore* result) {
    // Never destroyed: environments of static storage may use it until the end.
    static Stores* const stores = new Stores();
    std::lock_guard<std::mutex> guard(stores->mutex_);
    std::weak_ptr<Store>& known = stores->by_uri_[uri];
    *result = known.lock();
    if (*result != nullptr && !IsBroken((*result)->fs)) return rocksdb::Status::OK();
    zw_fs* fs = nullptr;
    IOStatus status = Taken(zw_fs_open(uri.c_str(), &fs));
    if (!status.ok()) return std::move(status);
    const std::string warning = zw_fs_warning(fs);
    // RocksDB has no log yet.
    if (!warning.empty()) std::cerr << "zoneweave: " << uri << ": " << warning << std::endl;
    known = *result = std::make_shared<Store>(fs);
    return rocksdb::Status::OK();
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<Store>> by_uri_;
};

std::unique_ptr<FileSystem> Open(const std::string& uri, std::string* message) {
  if (zw_fs_version() != ZW_FS_VERSION) {
    *message = "the plugin and the library of zoneweave have different versions";
    return nullptr;
  }
  SharedStore store;
  const rocksdb::Status status = Stores::Open(uri, &store);
  if (status.ok()) return std::make_unique<FileSystem>(std::move(store), uri);
  *message = status.ToString();
  return nullptr;
}

rocksdb::FileSystem* OpenFileSystem(const std::string& uri,
                                    std::unique_ptr<rocksdb::FileSystem>* guard,
                                    std::string* message) {
  *guard = Open(uri, message);
  return guard->get();
}

rocksdb::Env* OpenEnv(const std::string& uri, std::unique_ptr<Env>* guard, std::string* message) {
  std::shared_ptr<rocksdb::FileSystem> file_system = Open(uri, message);
  if (file_system != nullptr) *guard = rocksdb::NewCompositeEnv(file_system);
  return guard->get();
}

// Runs when the library is loaded.
const bool registered = [] {
  const auto pattern =
      rocksdb::ObjectLibrary::PatternEntry(kName, false).AddSeparator("://", false);
  const auto& library = rocksdb::ObjectLibrary::Default();
  library->AddFactory<rocksdb::FileSystem>(pattern, OpenFileSystem);
  library->AddFactory<Env>(pattern, OpenEnv);
  return true;
}();

}  // namespace

}  // namespace zoneweave
