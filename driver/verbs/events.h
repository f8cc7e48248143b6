// Events of an object that the program has not acknowledged yet: whoever destroys the object waits for that.
#pragma once

#include <pthread.h>

#include <cstdint>

namespace umlx5::verbs {

class MutexGuard {
 public:
  explicit MutexGuard(pthread_mutex_t& mutex) : mutex_(mutex) { pthread_mutex_lock(&mutex_); }
  ~MutexGuard() { pthread_mutex_unlock(&mutex_); }
  MutexGuard(const MutexGuard&) = delete;
  MutexGuard& operator=(const MutexGuard&) = delete;

 private:
  pthread_mutex_t& mutex_;
};

// Until `completed`, which is changed under `mutex` and announced by `cond`, is what the kernel `reported`. With the
// mutex held.
inline void wait_for(pthread_cond_t& cond, pthread_mutex_t& mutex, const std::uint32_t& completed,
                     std::uint32_t reported) {
  while (completed != reported) {
    pthread_cond_wait(&cond, &mutex);
  }
}

}  // namespace umlx5::verbs
