// A database whose contents are known at any moment, on a file system by URI.
//
//   workload battery URI      tables, direct I/O, mapped reads, checkpoint, ingestion, backup; verified
//   workload levels URI       "level N NAME" for each table that a compaction or flush has made
//   workload crash URI        synced writes until it is killed; reports each one that is acknowledged
//   workload check URI COUNT  verifies the first COUNT writes, and that later ones have no hole
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/listener.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/utilities/backup_engine.h>
#include <rocksdb/utilities/checkpoint.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>

using namespace rocksdb;

static void Check(int line, const Status& status) {
  if (status.ok()) return;
  printf("line %d: %s\n", line, status.ToString().c_str());
  exit(1);
}
#define DO(call) Check(__LINE__, call)
#define CHECK(condition) \
  Check(__LINE__, (condition) ? Status::OK() : Status::Corruption(#condition))

static std::string Key(uint64_t number) {
  char text[24];
  snprintf(text, sizeof text, "key%012" PRIu64, number);
  return text;
}

// The value of a key: 20 to 1019 bytes that no other key or version has.
static std::string Value(uint64_t number, uint64_t version) {
  uint64_t state = number * 0x9e3779b97f4a7c15u + version * 0xd1b54a32d192ed03u + 1;
  std::string value(20 + (number * 7 + version) % 1000, 'v');
  for (char& byte : value) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    byte = static_cast<char>(state);
  }
  return value;
}

static Env* OpenEnv(const std::string& uri, std::shared_ptr<Env>* guard) {
  Env* env = nullptr;
  DO(Env::CreateFromUri(ConfigOptions(), "", uri, &env, guard));
  return env;
}

static Options SmallOptions(Env* env) {
  Options options;
  options.env = env;
  options.create_if_missing = true;
  options.write_buffer_size = 512 << 10;
  options.target_file_size_base = 512 << 10;
  options.max_bytes_for_level_base = 1 << 20;
  options.compression = kNoCompression;
  options.max_background_jobs = 4;
  options.max_subcompactions = 2;
  return options;
}

static std::unique_ptr<DB> Open(const Options& options, const std::string& path) {
  DB* db = nullptr;
  DO(DB::Open(options, path, &db));
  return std::unique_ptr<DB>(db);
}

// The contents that a database must have: the version of each key.
using Model = std::map<uint64_t, uint64_t>;

static void Verify(DB* db, const Model& model) {
  std::unique_ptr<Iterator> at(db->NewIterator(ReadOptions()));
  at->SeekToFirst();
  for (const auto& [number, version] : model) {
    CHECK(at->Valid());
    CHECK(at->key() == Key(number) && at->value() == Value(number, version));
    at->Next();
  }
  CHECK(!at->Valid());
  DO(at->status());
  std::string value;
  for (auto entry = model.begin(); entry != model.end(); ++entry) {
    if (entry->first % 17 != 0) continue;
    DO(db->Get(ReadOptions(), Key(entry->first), &value));
    CHECK(value == Value(entry->first, entry->second));
  }
  DO(db->VerifyChecksum());
}

static void Fill(DB* db, Model* model, uint64_t keys, uint64_t version) {
  for (uint64_t step = 0; step < keys; step++) {
    const uint64_t number = step * 7919 % keys;
    if (version > 0 && number % 3 == 0) {
      DO(db->Delete(WriteOptions(), Key(number)));
      model->erase(number);
    } else {
      DO(db->Put(WriteOptions(), Key(number), Value(number, version)));
      (*model)[number] = version;
    }
  }
}

static void Ingest(DB* db, const Options& options, Model* model) {
  for (bool moves : {true, false}) {
    const std::string path = moves ? "/ingest/move.sst" : "/ingest/copy.sst";
    SstFileWriter writer{EnvOptions(options), options};
    DO(writer.Open(path));
    const uint64_t version = moves ? 8 : 9;
    for (uint64_t number = 100; number < 600; number++) {
      DO(writer.Put(Key(number), Value(number, version)));
      (*model)[number] = version;
    }
    DO(writer.Finish());
    IngestExternalFileOptions ingest;
    ingest.move_files = moves;
    ingest.write_global_seqno = true;
    DO(db->IngestExternalFile({path}, ingest));
    Verify(db, *model);
  }
}

static void Battery(const std::string& uri) {
  std::shared_ptr<Env> guard;
  Env* env = OpenEnv(uri, &guard);
  Options options = SmallOptions(env);
  Model model;
  std::unique_ptr<DB> db = Open(options, "/battery/db");
  Fill(db.get(), &model, 6000, 0);
  Fill(db.get(), &model, 6000, 1);
  Verify(db.get(), model);
  DO(env->CreateDirIfMissing("/ingest"));
  Ingest(db.get(), options, &model);

  Checkpoint* made = nullptr;
  DO(Checkpoint::Create(db.get(), &made));
  std::unique_ptr<Checkpoint> checkpoint(made);
  DO(checkpoint->CreateCheckpoint("/battery/checkpoint"));
  const Model then = model;

  BackupEngine* opened = nullptr;
  DO(BackupEngine::Open(BackupEngineOptions("/battery/backup"), env, &opened));
  std::unique_ptr<BackupEngine> backup(opened);
  DO(backup->CreateNewBackup(db.get(), true));
  DO(backup->VerifyBackup(1, true));
  DO(backup->RestoreDBFromLatestBackup("/battery/restored", "/battery/restored"));

  Fill(db.get(), &model, 3000, 2);
  db.reset();
  for (const char* path : {"/battery/checkpoint", "/battery/restored"}) {
    Verify(Open(options, path).get(), then);
  }
  // The same contents, by all ways of I/O.
  for (int mode = 0; mode < 3; mode++) {
    Options other = options;
    other.use_direct_reads = other.use_direct_io_for_flush_and_compaction = mode == 1;
    other.allow_mmap_reads = mode == 2;
    db = Open(other, "/battery/db");
    Verify(db.get(), model);
    Fill(db.get(), &model, 2000, 3 + mode);
    DO(db->CompactRange(CompactRangeOptions(), nullptr, nullptr));
    Verify(db.get(), model);
    db.reset();
  }
  bool same = true;
  DO(env->AreFilesSame("/battery/db", "/battery/restored", &same));
  CHECK(!same);
  std::vector<std::string> names;
  CHECK(env->GetChildren("/battery/none", &names).IsNotFound());
  CHECK(env->FileExists("/battery/none").IsNotFound());
  DB* second = nullptr;
  db = Open(options, "/battery/db");
  CHECK(!DB::Open(options, "/battery/db", &second).ok());
  db.reset();
  for (const char* path : {"/battery/db", "/battery/checkpoint", "/battery/restored"}) {
    DO(DestroyDB(path, options));
  }
}

// The level that each table is made for.
class Levels : public EventListener {
 public:
  void OnCompactionBegin(DB*, const CompactionJobInfo& job) override {
    std::lock_guard<std::mutex> guard(mutex_);
    levels_[job.job_id] = job.output_level;
  }
  void OnTableFileCreated(const TableFileCreationInfo& table) override {
    std::lock_guard<std::mutex> guard(mutex_);
    const bool compacted = table.reason == TableFileCreationReason::kCompaction;
    const std::string name = table.file_path.substr(table.file_path.rfind('/') + 1);
    if (table.status.ok()) {
      printf("level %d %s\n", compacted ? levels_.at(table.job_id) : 0, name.c_str());
    }
  }

 private:
  std::mutex mutex_;
  std::map<int, int> levels_;
};

static void ShowLevels(const std::string& uri) {
  std::shared_ptr<Env> guard;
  Options options = SmallOptions(OpenEnv(uri, &guard));
  options.listeners.push_back(std::make_shared<Levels>());
  Model model;
  std::unique_ptr<DB> db = Open(options, "/levels");
  for (uint64_t version = 0; version < 3; version++) Fill(db.get(), &model, 12000, version);
  Verify(db.get(), model);
}

constexpr uint64_t kCrashKeys = 500;

static Options CrashOptions(Env* env) {
  Options options = SmallOptions(env);
  options.write_buffer_size = 64 << 10;
  return options;
}

static void Crash(const std::string& uri) {
  std::shared_ptr<Env> guard;
  std::unique_ptr<DB> db = Open(CrashOptions(OpenEnv(uri, &guard)), "/crash");
  std::string count = "0";
  const Status found = db->Get(ReadOptions(), "count", &count);
  CHECK(found.ok() || found.IsNotFound());
  WriteOptions synced, unsynced;
  synced.sync = true;
  for (uint64_t number = strtoull(count.c_str(), nullptr, 10);; number++) {
    WriteBatch batch;
    DO(batch.Put(Key(number % kCrashKeys), Value(number % kCrashKeys, number)));
    DO(batch.Put("count", std::to_string(number + 1)));
    // Every fourth write is synced, and everything before it with it.
    const bool is_synced = number % 4 == 3;
    DO(db->Write(is_synced ? synced : unsynced, &batch));
    if (is_synced) {
      char line[32];
      const int length = snprintf(line, sizeof line, "%" PRIu64 "\n", number + 1);
      CHECK(write(STDOUT_FILENO, line, length) == length);
    }
  }
}

static void CheckCrash(const std::string& uri, uint64_t acknowledged) {
  std::shared_ptr<Env> guard;
  std::unique_ptr<DB> db = Open(CrashOptions(OpenEnv(uri, &guard)), "/crash");
  std::string text = "0", value;
  const Status found = db->Get(ReadOptions(), "count", &text);
  CHECK(found.ok() || (found.IsNotFound() && acknowledged == 0));
  const uint64_t count = strtoull(text.c_str(), nullptr, 10);
  printf("%" PRIu64 " acknowledged, %" PRIu64 " found\n", acknowledged, count);
  CHECK(count >= acknowledged);
  for (uint64_t key = 0; key < kCrashKeys && key < count; key++) {
    // The last write of the key before the count.
    const uint64_t last = (count - 1 - key) / kCrashKeys * kCrashKeys + key;
    DO(db->Get(ReadOptions(), Key(key), &value));
    CHECK(value == Value(key, last));
  }
  DO(db->VerifyChecksum());
}

int main(int argc, char** argv) {
  const std::string verb = argc > 1 ? argv[1] : "", uri = argc > 2 ? argv[2] : "";
  if (verb == "battery" && argc == 3) {
    Battery(uri);
  } else if (verb == "levels" && argc == 3) {
    ShowLevels(uri);
  } else if (verb == "crash" && argc == 3) {
    Crash(uri);
  } else if (verb == "check" && argc == 4) {
    CheckCrash(uri, strtoull(argv[3], nullptr, 10));
  } else {
    printf("usage: workload battery|levels|crash URI, or workload check URI COUNT\n");
    return 2;
  }
  printf("ok\n");
  return 0;
}
