// Interposes rocksdb::ColumnFamilyData::CalculateSSTWriteHint(int) of librocksdb 7.8, to keep the
// level. It works where this library precedes librocksdb in the order of symbols: preloaded, or
// linked before it.

#include "level.h"

#include <dlfcn.h>

#define HINT_SYMBOL "_ZN7rocksdb16ColumnFamilyData21CalculateSSTWriteHintEi"

extern "C" __attribute__((visibility("default"))) int zw_sst_write_hint(void* self, int level)
    __asm__(HINT_SYMBOL);

extern "C" int zw_sst_write_hint(void* self, int level) {
  using Function = int (*)(void*, int);
  static const auto next = reinterpret_cast<Function>(dlsym(RTLD_NEXT, HINT_SYMBOL));
  const int hint = next == nullptr ? ZW_FS_LIFETIME_NOT_SET : next(self, level);
  return zoneweave::WithLevel(hint, level);
}
