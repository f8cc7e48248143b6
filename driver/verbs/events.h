// Events: which object they are about, and waiting until the program has acknowledged those of an object.
#pragma once

#include <infiniband/verbs.h>
#include <pthread.h>

#include <cstdint>

namespace umlx5::verbs {

// What an asynchronous event is about; kOther: a port, or the device.
enum class About { kCq, kQp, kSrq, kOther };

inline About subject_of(ibv_event_type type) {
  switch (type) {
    case IBV_EVENT_CQ_ERR:
      return About::kCq;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return About::kQp;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return About::kSrq;
    default:
      return About::kOther;
  }
}

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
