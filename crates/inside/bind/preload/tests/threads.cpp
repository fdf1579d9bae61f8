// Prints the CPU of each std::thread, and throws an exception through a thread's frames.
#include <sched.h>
#include <stdexcept>
#include <cstdio>
#include <thread>
#include <future>
#include <vector>
#include <mutex>
#include <condition_variable>

int main() {
  std::printf("%u CPUs:", std::thread::hardware_concurrency());
  std::mutex mutex;
  std::condition_variable done;
  bool go = false;
  std::vector<int> cpus(4);
  std::vector<std::thread> threads;
  for (int &cpu : cpus)
    threads.emplace_back([&] {
      cpu = sched_getcpu();
      std::unique_lock lock(mutex);
      done.wait(lock, [&] { return go; });
    });
  {
    std::lock_guard lock(mutex);
    go = true;
  }
  done.notify_all();
  for (auto &thread : threads) thread.join();
  for (int cpu : cpus) std::printf(" %d", cpu);
  auto thrower = std::async(std::launch::deferred, []() -> int { throw std::runtime_error("x"); });
  try {
    thrower.get();
  } catch (const std::runtime_error &) {
    std::puts(" caught");
  }
}
