/* Uses every function of zoneweave_fs.h on the store of a drive, right and wrong. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zoneweave_fs.h"

#define CHECK(condition)                                                \
  do {                                                                  \
    if (!(condition)) {                                                 \
      printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
      exit(1);                                                          \
    }                                                                   \
  } while (0)

/* Checks the code of an error, and frees it. */
static void expect_at(int line, zw_fs_error *error, int32_t code) {
  if (zw_fs_error_code(error) != code) {
    printf("line %d: code %d instead of %d: %s\n", line, zw_fs_error_code(error), code,
           zw_fs_error_message(error));
    exit(1);
  }
  CHECK((strlen(zw_fs_error_message(error)) > 0) == (error != NULL));
  zw_fs_error_free(error);
}

#define OK(call) expect_at(__LINE__, call, ZW_FS_OK)
#define FAILS(call, code) expect_at(__LINE__, call, code)

static uint8_t byte_of(size_t at, unsigned seed) { return (uint8_t)((at * 31 + at / 4096 + seed) % 251); }

static uint8_t *pattern(size_t length, unsigned seed) {
  uint8_t *data = malloc(length);
  CHECK(data != NULL);
  for (size_t at = 0; at < length; at++) data[at] = byte_of(at, seed);
  return data;
}

/* Reads a whole file and compares it. */
static void check_file(zw_fs *fs, const char *path, size_t length, unsigned seed) {
  zw_fs_reader *reader;
  uint64_t size;
  size_t count;
  uint8_t *data = malloc(length + 1);
  OK(zw_fs_open_file(fs, path, &reader));
  OK(zw_fs_reader_length(reader, &size));
  CHECK(size == length);
  OK(zw_fs_read_at(reader, 0, data, length + 1, &count));
  CHECK(count == length);
  for (size_t at = 0; at < length; at++) CHECK(data[at] == byte_of(at, seed));
  OK(zw_fs_read_at(reader, length, data, 1, &count));
  CHECK(count == 0);
  OK(zw_fs_read_at(reader, 0, NULL, 0, &count));
  CHECK(count == 0);
  zw_fs_reader_close(reader);
  free(data);
}

static void files(zw_fs *fs) {
  const size_t length = 3000000;
  const zw_fs_hints hints = {ZW_FS_LIFETIME_LONG, 2}, none = {ZW_FS_LIFETIME_NOT_SET, ZW_FS_NO_LEVEL};
  uint8_t *data = pattern(length, 1);
  uint64_t size;
  zw_fs_writer *writer, *other;
  OK(zw_fs_create(fs, "/file", 0, &hints, &writer));
  FAILS(zw_fs_create(fs, "/file", 1, NULL, &other), ZW_FS_EXISTS);
  FAILS(zw_fs_append_to(fs, "/file", &other), ZW_FS_BUSY);
  OK(zw_fs_append(writer, data, 1000));
  OK(zw_fs_append(writer, NULL, 0));
  OK(zw_fs_append(writer, data + 1000, length - 1000));
  check_file(fs, "/file", length, 1);
  OK(zw_fs_flush(writer));
  OK(zw_fs_set_hints(writer, &none));
  OK(zw_fs_sync(writer));
  /* The tail again, as direct writers do. */
  OK(zw_fs_write_at(writer, 4096, data + 4096, length - 4096));
  FAILS(zw_fs_write_at(writer, length + 1, data, 1), ZW_FS_INVALID);
  OK(zw_fs_append(writer, data, 500));
  OK(zw_fs_truncate(writer, length));
  FAILS(zw_fs_truncate(writer, length + 1), ZW_FS_INVALID);
  OK(zw_fs_writer_length(writer, &size));
  CHECK(size == length);
  OK(zw_fs_writer_close(writer));
  check_file(fs, "/file", length, 1);
  OK(zw_fs_append_to(fs, "/file", &writer));
  OK(zw_fs_truncate(writer, 10));
  OK(zw_fs_append(writer, data + 10, 10));
  OK(zw_fs_writer_close(writer));
  check_file(fs, "/file", 20, 1);
  free(data);
}

static void names(zw_fs *fs) {
  zw_fs_stat stat, same;
  zw_fs_space space;
  zw_fs_entries *entries;
  OK(zw_fs_mkdir(fs, "/dir"));
  FAILS(zw_fs_mkdir(fs, "/dir"), ZW_FS_EXISTS);
  FAILS(zw_fs_mkdir(fs, "/none/dir"), ZW_FS_NOT_FOUND);
  FAILS(zw_fs_mkdir(fs, "/../dir"), ZW_FS_INVALID);
  OK(zw_fs_link(fs, "/file", "/dir/link"));
  OK(zw_fs_stat_path(fs, "/file", &stat));
  CHECK(stat.length == 20 && stat.links == 2 && !stat.is_directory && stat.modified > 0);
  OK(zw_fs_list(fs, "/dir", &entries));
  CHECK(zw_fs_entries_count(entries) == 1);
  CHECK(strcmp(zw_fs_entries_name(entries, 0), "link") == 0);
  OK(zw_fs_entries_stat(entries, 0, &same));
  CHECK(same.id == stat.id);
  CHECK(zw_fs_entries_name(entries, 1) == NULL);
  FAILS(zw_fs_entries_stat(entries, 1, &same), ZW_FS_INVALID);
  zw_fs_entries_free(entries);
  FAILS(zw_fs_list(fs, "/none", &entries), ZW_FS_NOT_FOUND);
  FAILS(zw_fs_list(fs, "/file", &entries), ZW_FS_NOT_A_DIRECTORY);
  FAILS(zw_fs_rmdir(fs, "/dir"), ZW_FS_NOT_EMPTY);
  FAILS(zw_fs_unlink(fs, "/dir"), ZW_FS_IS_A_DIRECTORY);
  FAILS(zw_fs_rename(fs, "/dir", "/dir/dir"), ZW_FS_INVALID);
  OK(zw_fs_rename(fs, "/dir/link", "/moved"));
  OK(zw_fs_unlink(fs, "/moved"));
  OK(zw_fs_rmdir(fs, "/dir"));
  OK(zw_fs_stat_path(fs, "/", &stat));
  CHECK(stat.is_directory == 1);
  OK(zw_fs_space_of(fs, &space));
  CHECK(strcmp(zw_fs_warning(fs), "") == 0 && strcmp(zw_fs_warning(NULL), "") == 0);
  CHECK(space.live_bytes >= 4096 && space.live_bytes + space.free_bytes <= space.capacity_bytes);
}

static void wrong_arguments(zw_fs *fs) {
  zw_fs_writer *writer;
  zw_fs_reader *reader;
  size_t count;
  const zw_fs_hints bad = {9, 0};
  char byte;
  FAILS(zw_fs_open(NULL, &fs), ZW_FS_INVALID);
  FAILS(zw_fs_open("zoneweave:///d", NULL), ZW_FS_INVALID);
  FAILS(zw_fs_create(NULL, "/a", 0, NULL, &writer), ZW_FS_INVALID);
  FAILS(zw_fs_create(fs, NULL, 0, NULL, &writer), ZW_FS_INVALID);
  FAILS(zw_fs_create(fs, "/\xff", 0, NULL, &writer), ZW_FS_INVALID);
  FAILS(zw_fs_create(fs, "/a", 0, NULL, NULL), ZW_FS_INVALID);
  FAILS(zw_fs_create(fs, "/a", 0, &bad, &writer), ZW_FS_INVALID);
  FAILS(zw_fs_append(NULL, "a", 1), ZW_FS_INVALID);
  FAILS(zw_fs_sync(NULL), ZW_FS_INVALID);
  FAILS(zw_fs_writer_close(NULL), ZW_FS_INVALID);
  OK(zw_fs_create(fs, "/a", 0, NULL, &writer));
  FAILS(zw_fs_append(writer, NULL, 1), ZW_FS_INVALID);
  FAILS(zw_fs_append(writer, &byte, (size_t)-1), ZW_FS_INVALID);
  FAILS(zw_fs_set_hints(writer, NULL), ZW_FS_INVALID);
  FAILS(zw_fs_writer_length(writer, NULL), ZW_FS_INVALID);
  OK(zw_fs_writer_close(writer));
  OK(zw_fs_open_file(fs, "/a", &reader));
  FAILS(zw_fs_read_at(reader, 0, NULL, 1, &count), ZW_FS_INVALID);
  FAILS(zw_fs_read_at(reader, 0, &byte, 1, NULL), ZW_FS_INVALID);
  zw_fs_reader_close(reader);
  FAILS(zw_fs_link(fs, "/a", NULL), ZW_FS_INVALID);
  FAILS(zw_fs_entries_stat(NULL, 0, NULL), ZW_FS_INVALID);
  OK(zw_fs_unlink(fs, "/a"));
  CHECK(zw_fs_entries_count(NULL) == 0 && zw_fs_entries_name(NULL, 0) == NULL);
  CHECK(zw_fs_error_code(NULL) == ZW_FS_OK);
  zw_fs_entries_free(NULL);
  zw_fs_reader_close(NULL);
  zw_fs_error_free(NULL);
  zw_fs_close(NULL);
}

struct job {
  zw_fs *fs;
  unsigned number;
};

static void *work(void *given) {
  const struct job *job = given;
  const size_t length = 200000;
  char path[32];
  uint8_t *data = pattern(length, job->number);
  zw_fs_writer *writer;
  snprintf(path, sizeof path, "/thread%u", job->number);
  OK(zw_fs_create(job->fs, path, 1, NULL, &writer));
  for (size_t at = 0; at < length; at += 10000) {
    OK(zw_fs_append(writer, data + at, 10000));
    if (at % 50000 == 0) OK(zw_fs_sync(writer));
  }
  OK(zw_fs_writer_close(writer));
  check_file(job->fs, path, length, job->number);
  OK(zw_fs_unlink(job->fs, path));
  free(data);
  return NULL;
}

static void threads(zw_fs *fs) {
  enum { COUNT = 8 };
  pthread_t running[COUNT];
  struct job jobs[COUNT];
  for (unsigned number = 0; number < COUNT; number++) {
    jobs[number] = (struct job){fs, number};
    CHECK(pthread_create(&running[number], NULL, work, &jobs[number]) == 0);
  }
  for (unsigned number = 0; number < COUNT; number++) CHECK(pthread_join(running[number], NULL) == 0);
}

/* Handles outlive their store, and a store is found as it was left. */
static void closing(zw_fs *fs, const char *uri) {
  zw_fs_writer *writer;
  zw_fs_reader *reader;
  uint64_t length;
  OK(zw_fs_create(fs, "/open", 0, NULL, &writer));
  OK(zw_fs_append(writer, "synced", 6));
  OK(zw_fs_sync(writer));
  OK(zw_fs_open_file(fs, "/open", &reader));
  zw_fs_close(fs);
  FAILS(zw_fs_append(writer, "late", 4), ZW_FS_STOPPED);
  FAILS(zw_fs_writer_close(writer), ZW_FS_STOPPED);
  FAILS(zw_fs_reader_length(reader, &length), ZW_FS_STOPPED);
  zw_fs_reader_close(reader);
  OK(zw_fs_open(uri, &fs));
  OK(zw_fs_open_file(fs, "/open", &reader));
  OK(zw_fs_reader_length(reader, &length));
  CHECK(length == 6);
  zw_fs_reader_close(reader);
  check_file(fs, "/file", 20, 1);
  zw_fs_close(fs);
}

int main(int argc, char **argv) {
  char uri[4096], wrong[4200];
  zw_fs *fs, *second;
  CHECK(argc == 2);
  CHECK(zw_fs_version() == ZW_FS_VERSION);
  snprintf(uri, sizeof uri, "zoneweave://%s", argv[1]);
  snprintf(wrong, sizeof wrong, "%s?colour=red", uri);
  FAILS(zw_fs_open(wrong, &fs), ZW_FS_INVALID);
  snprintf(wrong, sizeof wrong, "%s.gone", uri);
  FAILS(zw_fs_open(wrong, &fs), ZW_FS_NOT_FOUND);
  FAILS(zw_fs_open("/dev/null", &fs), ZW_FS_INVALID);
  OK(zw_fs_open(uri, &fs));
  FAILS(zw_fs_open(uri, &second), ZW_FS_BUSY);
  files(fs);
  names(fs);
  wrong_arguments(fs);
  threads(fs);
  closing(fs, uri);
  printf("ok\n");
  return 0;
}
