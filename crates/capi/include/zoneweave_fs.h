/* The C interface of Zoneweave file stores: files on zoned drives, in this process.
 *
 * Threads. Any number of threads may use a store and its handles at the same time. Each open store has
 * one thread of its own, which does the work. Calls wait for it; at most 256 are under way, and
 * further ones wait for their turn.
 *
 * Errors. Functions that can fail return NULL for success, or an error with a code and a message. The
 * caller frees it with zw_fs_error_free. Outputs are written on success only. A null pointer where a
 * value is needed is ZW_FS_INVALID.
 *
 * Durability. A file is a prefix of its appends after a crash, at least as long as at its last
 * zw_fs_sync. Changes of names, and truncations, are durable on return.
 *
 * Paths. Names of 1 to 255 bytes of UTF-8, separated by slashes, from the root of the store. Empty names
 * and "." are skipped; ".." is refused.
 *
 * Bugs. A panic inside never leaves the library. The store is unusable then: each call returns
 * ZW_FS_BUG, and what was synced is safe. Close it, and open it again.
 */
#ifndef ZONEWEAVE_FS_H
#define ZONEWEAVE_FS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. It grows with each change that breaks callers. */
#define ZW_FS_VERSION 1

typedef struct zw_fs zw_fs;                 /* an open store */
typedef struct zw_fs_writer zw_fs_writer;   /* a file open for writing */
typedef struct zw_fs_reader zw_fs_reader;   /* a file open for reading */
typedef struct zw_fs_entries zw_fs_entries; /* the names in a directory */
typedef struct zw_fs_error zw_fs_error;

enum zw_fs_code {
  ZW_FS_OK = 0,
  ZW_FS_NOT_FOUND = 1,       /* no such file, directory, drive or store */
  ZW_FS_EXISTS = 2,          /* the path is taken */
  ZW_FS_NOT_A_DIRECTORY = 3, /* a part of the path is a file */
  ZW_FS_IS_A_DIRECTORY = 4,  /* the operation is for files */
  ZW_FS_NOT_EMPTY = 5,       /* the directory has names */
  ZW_FS_INVALID = 6,         /* an argument is wrong; see the message */
  ZW_FS_BUSY = 7,            /* a drive or file is in use, or too many files are open */
  ZW_FS_NO_SPACE = 8,        /* nothing is left that could be reclaimed */
  ZW_FS_DAMAGED = 9,         /* a block does not verify; nothing is made up */
  ZW_FS_IO = 10,             /* a drive failed */
  ZW_FS_STOPPED = 11,        /* the store takes no more changes, or is closed */
  ZW_FS_BUG = 12,            /* a bug in the library; the store is unusable */
  ZW_FS_UNREACHABLE = 13,    /* the server of the store does not answer, or has ended; open it again */
  ZW_FS_UNREADABLE = 14      /* a drive cannot read a block */
};

/* Expected lifetimes, with the numbers of RocksDB's WriteLifeTimeHint. */
enum zw_fs_lifetime {
  ZW_FS_LIFETIME_NOT_SET = 0,
  ZW_FS_LIFETIME_NONE = 1,
  ZW_FS_LIFETIME_SHORT = 2,
  ZW_FS_LIFETIME_MEDIUM = 3,
  ZW_FS_LIFETIME_LONG = 4,
  ZW_FS_LIFETIME_EXTREME = 5
};

/* No level of an LSM tree is known. */
#define ZW_FS_NO_LEVEL 255

typedef struct zw_fs_hints {
  uint8_t lifetime; /* enum zw_fs_lifetime */
  uint8_t level;    /* level of the LSM tree, or ZW_FS_NO_LEVEL */
} zw_fs_hints;

typedef struct zw_fs_stat {
  uint64_t id;           /* number of the file or directory, never used again */
  uint64_t length;       /* bytes, with those that are not written yet; 0 for directories */
  uint64_t modified;     /* seconds since 1970 of the last change of its length */
  uint32_t links;        /* names that it has */
  uint8_t is_directory;  /* 0 or 1 */
} zw_fs_stat;

typedef struct zw_fs_space {
  uint64_t capacity_bytes; /* data zones that can be written */
  uint64_t live_bytes;     /* blocks that files need */
  uint64_t free_bytes;     /* empty zones, and the rest of open ones; the difference is reclaimable */
} zw_fs_space;

/* The version of the library; compare it with ZW_FS_VERSION. */
uint32_t zw_fs_version(void);

/* The code of an error: enum zw_fs_code. ZW_FS_OK for NULL. */
int32_t zw_fs_error_code(const zw_fs_error *error);
/* Its message, until it is freed; "" for NULL. */
const char *zw_fs_error_message(const zw_fs_error *error);
/* Frees an error. NULL is ignored. */
void zw_fs_error_free(zw_fs_error *error);

/* Opens the store of a drive, or of the zoned volume of several drives:
 *
 *   zoneweave://DRIVE[,DRIVE...][?OPTION=VALUE[&OPTION=VALUE...]]
 *
 * A drive is a path, so that three slashes begin an absolute one. %XX is a byte, for commas and
 * question marks in paths. Options: policy (lifetime, sequential,
 * least-worn, dual-pool, wear-aware), buffer (bytes that a file collects
 * before it writes them, such as 1M), active_zones (data zones written at once), max_writers.
 *
 * Or reaches a store that `zoneweave fs serve` keeps open, so that several processes use it:
 *
 *   zoneweave://unix:SOCKET
 *
 * Files that a process has open are closed at the server when it ends; bytes that it has neither
 * flushed nor synced are lost. When the server ends, calls fail with UNREACHABLE.
 *
 * Fails with NOT_FOUND (a drive, a store or a server is missing), BUSY (another process, or this one, has a drive
 * open), INVALID (the URI, the drives, a drive too small), DAMAGED or IO. */
zw_fs_error *zw_fs_open(const char *uri, zw_fs **fs);
/* A sentence for the user about damage that the drive did to blocks which no record knew when the
 * store was opened, until it is closed. "" if there is none, and for NULL. */
const char *zw_fs_warning(const zw_fs *fs);
/* Waits for calls under way, and closes the store. No call on the store may begin once this has begun.
 * Buffered bytes of open writers are lost. Handles of files stay valid until they are closed; their
 * calls fail with STOPPED. NULL is ignored. */
void zw_fs_close(zw_fs *fs);

/* Makes a file and opens it for writing. An existing file of that name is replaced, atomically; with
 * is_exclusive, it is EXISTS. hints may be NULL. */
zw_fs_error *zw_fs_create(zw_fs *fs, const char *path, int is_exclusive, const zw_fs_hints *hints,
                          zw_fs_writer **writer);
/* Opens an existing file, to append to it. BUSY if it is open for writing. */
zw_fs_error *zw_fs_append_to(zw_fs *fs, const char *path, zw_fs_writer **writer);
/* Appends bytes. */
zw_fs_error *zw_fs_append(zw_fs_writer *writer, const void *data, size_t length);
/* Cuts the file at a byte up to its end, and appends bytes there. INVALID behind the end. */
zw_fs_error *zw_fs_write_at(zw_fs_writer *writer, uint64_t offset, const void *data, size_t length);
/* Hands all bytes to the drive, which may still lose them with its power. */
zw_fs_error *zw_fs_flush(zw_fs_writer *writer);
/* Makes all bytes durable. */
zw_fs_error *zw_fs_sync(zw_fs_writer *writer);
/* Cuts the file, durably. INVALID if it is shorter. */
zw_fs_error *zw_fs_truncate(zw_fs_writer *writer, uint64_t length);
/* Sets hints for later blocks. */
zw_fs_error *zw_fs_set_hints(zw_fs_writer *writer, const zw_fs_hints *hints);
/* The length of the file, with bytes that are not written yet. */
zw_fs_error *zw_fs_writer_length(zw_fs_writer *writer, uint64_t *length);
/* Flushes the file and ends the handle, which is freed even if this fails. It does not sync. */
zw_fs_error *zw_fs_writer_close(zw_fs_writer *writer);

/* Opens a file for reading. It stays readable until the handle is closed, even if it is deleted. */
zw_fs_error *zw_fs_open_file(zw_fs *fs, const char *path, zw_fs_reader **reader);
/* Reads bytes from offset on; *count is below length only at the end of the file. Bytes that a writer
 * has appended are included, synced or not. */
zw_fs_error *zw_fs_read_at(zw_fs_reader *reader, uint64_t offset, void *buffer, size_t length,
                           size_t *count);
/* The length of the file. */
zw_fs_error *zw_fs_reader_length(zw_fs_reader *reader, uint64_t *length);
/* Ends the handle. NULL is ignored. */
void zw_fs_reader_close(zw_fs_reader *reader);

/* Makes a directory; the one above it must exist. */
zw_fs_error *zw_fs_mkdir(zw_fs *fs, const char *path);
/* Removes an empty directory. */
zw_fs_error *zw_fs_rmdir(zw_fs *fs, const char *path);
/* Removes a name of a file. */
zw_fs_error *zw_fs_unlink(zw_fs *fs, const char *path);
/* Gives a file another name. */
zw_fs_error *zw_fs_link(zw_fs *fs, const char *file, const char *name);
/* Moves a file or directory; a file or empty directory that has the new name is replaced atomically. */
zw_fs_error *zw_fs_rename(zw_fs *fs, const char *from, const char *to);
/* Describes a file or directory. */
zw_fs_error *zw_fs_stat_path(zw_fs *fs, const char *path, zw_fs_stat *stat);
/* Reports the space of the store. */
zw_fs_error *zw_fs_space_of(zw_fs *fs, zw_fs_space *space);

/* The names in a directory, sorted. */
zw_fs_error *zw_fs_list(zw_fs *fs, const char *path, zw_fs_entries **entries);
/* How many there are; 0 for NULL. */
size_t zw_fs_entries_count(const zw_fs_entries *entries);
/* A name, until the list is freed; NULL behind the last. */
const char *zw_fs_entries_name(const zw_fs_entries *entries, size_t index);
/* Describes an entry as it was when it was listed. INVALID behind the last. */
zw_fs_error *zw_fs_entries_stat(const zw_fs_entries *entries, size_t index, zw_fs_stat *stat);
/* Frees a list. NULL is ignored. */
void zw_fs_entries_free(zw_fs_entries *entries);

#ifdef __cplusplus
}
#endif

#endif
