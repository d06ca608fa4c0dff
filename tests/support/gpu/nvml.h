/* What the files of the NVML library share: its answers, its handles, and how a call begins and ends. */
#ifndef NVML_H
#define NVML_H

#include "machine.h"

enum {
  SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6,
  INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9, TIMEOUT = 10, GPU_IS_LOST = 15, IN_USE = 19, NO_DATA = 21,
  INSUFFICIENT_RESOURCES = 23
};

/* A GPU is 1 + its number, an instance of it 0x100 + both numbers. */
typedef struct handle *nvml_t;
nvml_t nvml_handle(u32 gpu, u32 engine);
u32 nvml_gpu(nvml_t handle);
u32 nvml_engine(nvml_t handle); /* 0: the whole GPU, else instance + 1 */

/* nvml_begin locks the machine where it answers 0; nvml_end unlocks it and hands its answer on. */
int nvml_begin(const char *call);
int nvml_begin_on(const char *call, nvml_t handle, gpu_t **gpu);
int nvml_end(int answer);
int nvml_text(char *to, u32 room, const char *text);
int nvml_session_stale(void);

#define BEGIN()                            \
  do {                                     \
    int wrong_ = nvml_begin(__func__);     \
    if (wrong_) return wrong_;             \
  } while (0)
#define BEGIN_ON(handle)                                    \
  gpu_t *gpu;                                               \
  do {                                                      \
    int wrong_ = nvml_begin_on(__func__, handle, &gpu);     \
    if (wrong_) return wrong_;                              \
  } while (0)

#endif
