/* operator new and delete in all their forms. Source: [new.delete] of the C++ standard. */
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <dlfcn.h>
#include <malloc.h>
#include <memory>
#include <new>
#include <string>
#include <unordered_map>
#include <vector>

#include "case.h"

/* By mangled name, as compilers call them, because an optimiser may remove pairs of expressions. */
#define FORMS(form)                     \
  form(_Znwm)                           \
  form(_Znam)                           \
  form(_ZnwmRKSt9nothrow_t)             \
  form(_ZnamRKSt9nothrow_t)             \
  form(_ZnwmSt11align_val_t)            \
  form(_ZnamSt11align_val_t)            \
  form(_ZnwmSt11align_val_tRKSt9nothrow_t) \
  form(_ZnamSt11align_val_tRKSt9nothrow_t) \
  form(_ZdlPv)                          \
  form(_ZdaPv)                          \
  form(_ZdlPvm)                         \
  form(_ZdaPvm)                         \
  form(_ZdlPvRKSt9nothrow_t)            \
  form(_ZdaPvRKSt9nothrow_t)            \
  form(_ZdlPvSt11align_val_t)           \
  form(_ZdaPvSt11align_val_t)           \
  form(_ZdlPvmSt11align_val_t)          \
  form(_ZdaPvmSt11align_val_t)          \
  form(_ZdlPvSt11align_val_tRKSt9nothrow_t) \
  form(_ZdaPvSt11align_val_tRKSt9nothrow_t)

/* All must come from the library that provides malloc; otherwise one would free another's
 * memory. */
static void all_forms_are_here() {
  Dl_info home, form;
  CHECK(dladdr(reinterpret_cast<void *>(dlsym(RTLD_DEFAULT, "malloc")), &home));
#define HERE(name)                                                             \
  {                                                                            \
    void *address = dlsym(RTLD_DEFAULT, #name);                                \
    if (!address || !dladdr(address, &form) || form.dli_fbase != home.dli_fbase) { \
      printf("%s is not in %s\n", #name, home.dli_fname);                      \
      fflush(stdout);                                                          \
      _exit(1);                                                                \
    }                                                                          \
  }
  FORMS(HERE)
}

static const std::size_t SIZES[] = {0, 1, 8, 16, 17, 100, 1000, 5000, 32768, 70000, 600000, 3000000};
static const std::size_t TOO_MUCH[] = {PTRDIFF_MAX, SIZE_MAX, SIZE_MAX - 4095, SIZE_MAX / 2 + 1};

static void check_block(void *block, std::size_t size, std::size_t alignment) {
  CHECK_AT(block, size, alignment);
  CHECK_AT(reinterpret_cast<std::uintptr_t>(block) % alignment == 0, size, alignment);
  CHECK_AT(malloc_usable_size(block) >= size, size, alignment);
  memset(block, 0x5a, size);
}

static void pairs() {
  for (int round = 0; round < 20; round++)
    for (std::size_t size : SIZES) {
      void *block = ::operator new(size);
      check_block(block, size, alignof(std::max_align_t));
      ::operator delete(block);
      block = ::operator new[](size);
      check_block(block, size, alignof(std::max_align_t));
      ::operator delete[](block);
      block = ::operator new(size);
      ::operator delete(block, size);
      block = ::operator new[](size);
      ::operator delete[](block, size);
      block = ::operator new(size, std::nothrow);
      check_block(block, size, alignof(std::max_align_t));
      ::operator delete(block, std::nothrow);
      block = ::operator new[](size, std::nothrow);
      check_block(block, size, alignof(std::max_align_t));
      ::operator delete[](block, std::nothrow);
      /* Freed by the C function, as some programs do and every implementation here allows. */
      free(::operator new(size));
    }
  ::operator delete(nullptr);
  ::operator delete[](nullptr);
  ::operator delete(nullptr, std::size_t(10));
  ::operator delete(nullptr, std::align_val_t(64));
}

static void aligned_pairs() {
  for (std::size_t alignment = 1; alignment <= std::size_t(1) << 21; alignment *= 2)
    for (std::size_t size : SIZES) {
      std::align_val_t at{alignment};
      void *block = ::operator new(size, at);
      check_block(block, size, alignment);
      ::operator delete(block, at);
      block = ::operator new[](size, at);
      check_block(block, size, alignment);
      ::operator delete[](block, at);
      block = ::operator new(size, at);
      ::operator delete(block, size, at);
      block = ::operator new[](size, at);
      ::operator delete[](block, size, at);
      block = ::operator new(size, at, std::nothrow);
      check_block(block, size, alignment);
      ::operator delete(block, at, std::nothrow);
      block = ::operator new[](size, at, std::nothrow);
      check_block(block, size, alignment);
      ::operator delete[](block, at, std::nothrow);
    }
}

/* Results are stored here, because a compiler may remove an expression without use. */
static void *volatile sink;

template <class Call> static bool throws_bad_alloc(Call call) {
  try {
    call();
  } catch (const std::bad_alloc &) {
    return true;
  }
  return false;
}

static void too_much_throws() {
  for (std::size_t size : TOO_MUCH) {
    CHECK(throws_bad_alloc([=] { sink = ::operator new(size); }));
    CHECK(throws_bad_alloc([=] { sink = ::operator new[](size); }));
    CHECK(throws_bad_alloc([=] { sink = ::operator new(size, std::align_val_t(64)); }));
    CHECK(throws_bad_alloc([=] { sink = ::operator new[](size, std::align_val_t(64)); }));
  }
}

static void too_much_without_throwing() {
  for (std::size_t size : TOO_MUCH) {
    CHECK(!(sink = ::operator new(size, std::nothrow)));
    CHECK(!(sink = ::operator new[](size, std::nothrow)));
    CHECK(!(sink = ::operator new(size, std::align_val_t(64), std::nothrow)));
    CHECK(!(sink = ::operator new[](size, std::align_val_t(64), std::nothrow)));
  }
}

static int handled;

static void give_up_after_three() {
  if (++handled == 3) std::set_new_handler(nullptr);
}

static void the_new_handler_is_asked() {
  for (int form = 0; form < 4; form++) {
    handled = 0;
    std::set_new_handler(give_up_after_three);
    std::size_t size = TOO_MUCH[0];
    if (form == 0) CHECK(throws_bad_alloc([=] { sink = ::operator new(size); }));
    if (form == 1) CHECK(!(sink = ::operator new(size, std::nothrow)));
    if (form == 2) CHECK(throws_bad_alloc([=] { sink = ::operator new(size, std::align_val_t(128)); }));
    if (form == 3) CHECK(!(sink = ::operator new(size, std::align_val_t(128), std::nothrow)));
    CHECK_AT(handled == 3, form, handled);
  }
}

static void throws() { throw std::bad_alloc(); }

static void a_throwing_handler_is_heard() {
  std::set_new_handler(throws);
  CHECK(throws_bad_alloc([] { sink = ::operator new(TOO_MUCH[0]); }));
}

static void a_throwing_handler_without_throwing() {
  std::set_new_handler(throws);
  too_much_without_throwing();
}

struct alignas(256) Wide {
  char bytes[300];
};

static void containers() {
  std::unordered_map<std::string, std::vector<std::unique_ptr<Wide>>> map;
  for (int i = 0; i < 20000; i++) {
    auto &list = map["key number " + std::to_string(i % 997)];
    list.push_back(std::make_unique<Wide>());
    CHECK(reinterpret_cast<std::uintptr_t>(list.back().get()) % alignof(Wide) == 0);
    if (i % 3 == 0) list.erase(list.begin());
  }
  std::string text;
  for (int i = 0; i < 200000; i++) text += static_cast<char>('a' + i % 26);
  CHECK(text.size() == 200000 && text[199999] == 'a' + 199999 % 26);
}

int main(int count, char **arguments) {
  static const test_case cases[] = {
      {"all_forms_are_here", all_forms_are_here},
      {"pairs", pairs},
      {"aligned_pairs", aligned_pairs},
      {"too_much_throws", too_much_throws},
      {"too_much_without_throwing", too_much_without_throwing},
      {"the_new_handler_is_asked", the_new_handler_is_asked},
      {"a_throwing_handler_is_heard", a_throwing_handler_is_heard},
      {"a_throwing_handler_without_throwing", a_throwing_handler_without_throwing},
      {"containers", containers},
  };
  return run_case(count, arguments, cases, COUNT(cases));
}
