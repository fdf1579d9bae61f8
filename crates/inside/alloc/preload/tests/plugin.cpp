/* A library for dlopen that uses the heap in its constructor, its destructor, its thread
 * locals and its functions. */
#include <cstdlib>
#include <cstring>

static char *at_load;
__attribute__((constructor)) static void load() { at_load = static_cast<char *>(calloc(1, 12345)); }
__attribute__((destructor)) static void unload() { free(at_load); }

struct Local {
  char *block = static_cast<char *>(malloc(777));
  ~Local() { free(block); }
};
static thread_local Local local;

extern "C" char *plugin_make(size_t size) {
  char *block = static_cast<char *>(malloc(size));
  memset(block, 'p', size);
  return block;
}

extern "C" void plugin_use() {
  local.block[0] = at_load[0];
  for (size_t size = 1; size < 1000000; size *= 2) free(plugin_make(size));
}
