/* libnvidia-ml.so.1: GPUs in instances. */
#include "nvml.h"

#include <stdio.h>
#include <string.h>

typedef struct {
  u32 version, id, p2p, slices, fit, multiprocessors, copies, decoders, encoders, jpegs, flows;
  u64 mib;
  char name[96];
} gpu_profile_t;
typedef struct {
  u32 version, id, slices, fit, multiprocessors, copies, decoders, encoders, jpegs, flows;
  char name[96];
} compute_profile_t;
typedef struct {
  u32 start, size;
} place_t;

static instance_t *instance_of(nvml_t handle) {
  return &machine->told.gpu[nvml_gpu(handle)].gi[nvml_engine(handle) - 1];
}
static nvml_t handle_of(const gpu_t *gpu, u32 instance) {
  return nvml_handle((u32)(gpu - machine->told.gpu), instance + 1);
}

EXPORT int nvmlDeviceGetGpuInstanceProfileInfoV(nvml_t handle, u32 slot, gpu_profile_t *told) {
  u32 version = told->version;
  BEGIN_ON(handle);
  (void)gpu;
  for (const profile_t *one = profiles; one < profiles + PROFILES; one++) {
    if (one->slot != slot) continue;
    *told = (gpu_profile_t){.version = version, .id = one->id, .p2p = 1, .slices = one->slices, .fit = one->fit,
                            .multiprocessors = one->multiprocessors, .mib = one->mib};
    strcpy(told->name, one->name);
    return nvml_end(SUCCESS);
  }
  return nvml_end(NOT_SUPPORTED);
}
EXPORT int nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvml_t handle, u32 id, place_t *told, u32 *count) {
  const profile_t *profile = profile_by_id(id);
  BEGIN_ON(handle);
  (void)gpu;
  if (!profile) return nvml_end(NOT_SUPPORTED);
  for (*count = 0; profile->at[*count] >= 0; ++*count)
    if (told) told[*count] = (place_t){(u32)profile->at[*count], profile->size};
  return nvml_end(SUCCESS);
}
EXPORT int nvmlDeviceGetMigMode(nvml_t handle, u32 *now, u32 *then) {
  BEGIN_ON(handle);
  *now = *then = gpu->mig;
  return nvml_end(SUCCESS);
}
/* Only while nothing runs there and no instance is left. */
EXPORT int nvmlDeviceSetMigMode(nvml_t handle, u32 on, u32 *answer) {
  u32 held = 0;
  BEGIN_ON(handle);
  for (u32 i = 0; i < INSTANCES; i++) held |= gpu->gi[i].used;
  for (u32 i = 0; i < CONTEXTS; i++)
    held |= machine->context[i].used && machine->context[i].gpu == nvml_gpu(handle);
  if (gpu->nproc || held) {
    *answer = IN_USE;
    return nvml_end(SUCCESS);
  }
  gpu->mig = on;
  *answer = SUCCESS;
  return nvml_end(SUCCESS);
}

static int is_free(const gpu_t *gpu, const profile_t *profile, u32 at) {
  for (const instance_t *one = gpu->gi; one < gpu->gi + INSTANCES; one++)
    if (one->used && at < one->start + one->size && one->start < at + profile->size) return 0;
  return 1;
}
static int created(gpu_t *gpu, u32 id, int wanted, nvml_t *made) {
  const profile_t *profile = profile_by_id(id);
  u32 count = 0, slot = INSTANCES;
  if (!gpu->mig || !profile) return NOT_SUPPORTED;
  for (u32 i = INSTANCES; i-- > 0;) {
    count += gpu->gi[i].used && gpu->gi[i].profile == id;
    if (!gpu->gi[i].used) slot = i;
  }
  if (slot == INSTANCES || count >= profile->fit) return INSUFFICIENT_RESOURCES;
  for (const int *at = profile->at; *at >= 0; at++) {
    if ((wanted >= 0 && *at != wanted) || !is_free(gpu, profile, (u32)*at)) continue;
    gpu->gi[slot] = (instance_t){.id = slot + 1, .profile = id, .start = (u32)*at, .size = profile->size};
    gpu->gi[slot].used = 1;
    *made = handle_of(gpu, slot);
    return SUCCESS;
  }
  return INSUFFICIENT_RESOURCES;
}
EXPORT int nvmlDeviceCreateGpuInstance(nvml_t handle, u32 id, nvml_t *made) {
  BEGIN_ON(handle);
  return nvml_end(created(gpu, id, -1, made));
}
EXPORT int nvmlDeviceCreateGpuInstanceWithPlacement(nvml_t handle, u32 id, const place_t *place, nvml_t *made) {
  BEGIN_ON(handle);
  return nvml_end(created(gpu, id, (int)place->start, made));
}
EXPORT int nvmlDeviceGetGpuInstanceRemainingCapacity(nvml_t handle, u32 id, u32 *count) {
  const profile_t *profile = profile_by_id(id);
  BEGIN_ON(handle);
  if (!profile) return nvml_end(NOT_SUPPORTED);
  *count = 0;
  for (const int *at = profile->at; *at >= 0; at++) *count += (u32)is_free(gpu, profile, (u32)*at);
  return nvml_end(SUCCESS);
}
EXPORT int nvmlDeviceGetGpuInstances(nvml_t handle, u32 id, nvml_t *told, u32 *count) {
  BEGIN_ON(handle);
  *count = 0;
  for (u32 i = 0; i < INSTANCES; i++)
    if (gpu->gi[i].used && gpu->gi[i].profile == id) told[(*count)++] = handle_of(gpu, i);
  return nvml_end(SUCCESS);
}
EXPORT int nvmlDeviceGetGpuInstanceById(nvml_t handle, u32 id, nvml_t *told) {
  BEGIN_ON(handle);
  for (u32 i = 0; i < INSTANCES; i++) {
    if (!gpu->gi[i].used || gpu->gi[i].id != id) continue;
    *told = handle_of(gpu, i);
    return nvml_end(SUCCESS);
  }
  return nvml_end(NOT_FOUND);
}
typedef struct {
  nvml_t device;
  u32 id, profile;
  place_t place;
} instance_info_t;
EXPORT int nvmlGpuInstanceGetInfo(nvml_t handle, instance_info_t *told) {
  const instance_t *instance;
  BEGIN_ON(handle);
  (void)gpu;
  instance = instance_of(handle);
  *told = (instance_info_t){nvml_handle(nvml_gpu(handle), 0), instance->id, instance->profile,
                            {instance->start, instance->size}};
  return nvml_end(instance->used ? SUCCESS : NOT_FOUND);
}
EXPORT int nvmlGpuInstanceDestroy(nvml_t handle) {
  instance_t *instance;
  BEGIN_ON(handle);
  (void)gpu;
  instance = instance_of(handle);
  if (!instance->used) return nvml_end(NOT_FOUND);
  if (instance->ci_used) return nvml_end(IN_USE);
  instance->used = 0;
  return nvml_end(SUCCESS);
}
EXPORT int nvmlGpuInstanceGetComputeInstanceProfileInfoV(nvml_t handle, u32 slot, u32 engine, compute_profile_t *told) {
  const profile_t *profile;
  u32 version = told->version;
  (void)engine;
  BEGIN_ON(handle);
  (void)gpu;
  profile = profile_by_id(instance_of(handle)->profile);
  if (!profile || slot != profile->slot % 7) return nvml_end(NOT_SUPPORTED);
  *told = (compute_profile_t){.version = version, .id = slot, .slices = profile->slices, .fit = 1,
                              .multiprocessors = profile->multiprocessors};
  strcpy(told->name, profile->name);
  return nvml_end(SUCCESS);
}
EXPORT int nvmlGpuInstanceCreateComputeInstance(nvml_t handle, u32 id, nvml_t *made) {
  instance_t *instance;
  BEGIN_ON(handle);
  (void)gpu;
  instance = instance_of(handle);
  if (!instance->used) return nvml_end(NOT_FOUND);
  if (instance->ci_used) return nvml_end(INSUFFICIENT_RESOURCES);
  instance->cprofile = id;
  snprintf(instance->uuid, sizeof instance->uuid, "MIG-%08x-0000-5000-8000-%012x", nvml_gpu(handle),
           instance->id * 256 + instance->start);
  instance->ci_used = 1;
  *made = handle;
  return nvml_end(SUCCESS);
}
EXPORT int nvmlGpuInstanceGetComputeInstances(nvml_t handle, u32 id, nvml_t *told, u32 *count) {
  BEGIN_ON(handle);
  (void)gpu;
  *count = instance_of(handle)->ci_used && instance_of(handle)->cprofile == id;
  if (*count) told[0] = handle;
  return nvml_end(SUCCESS);
}
typedef struct {
  nvml_t device, instance;
  u32 id, profile;
  place_t place;
} compute_info_t;
EXPORT int nvmlComputeInstanceGetInfo_v2(nvml_t handle, compute_info_t *told) {
  BEGIN_ON(handle);
  (void)gpu;
  *told = (compute_info_t){nvml_handle(nvml_gpu(handle), 0), handle, 0, instance_of(handle)->cprofile, {0, 0}};
  return nvml_end(SUCCESS);
}
EXPORT int nvmlComputeInstanceDestroy(nvml_t handle) {
  instance_t *instance;
  u32 held = 0;
  BEGIN_ON(handle);
  instance = instance_of(handle);
  if (!instance->ci_used) return nvml_end(NOT_FOUND);
  for (u32 i = 0; i < gpu->nproc; i++) held |= gpu->proc[i].gi == instance->id;
  for (u32 i = 0; i < CONTEXTS; i++) {
    const context_t *context = &machine->context[i];
    held |= context->used && context->gpu == nvml_gpu(handle) && context->engine == nvml_engine(handle);
  }
  if (!held) instance->ci_used = 0;
  return nvml_end(held ? IN_USE : SUCCESS);
}
EXPORT int nvmlDeviceGetMaxMigDeviceCount(nvml_t handle, u32 *count) {
  BEGIN_ON(handle);
  (void)gpu;
  *count = 7;
  return nvml_end(SUCCESS);
}
EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(nvml_t handle, u32 index, nvml_t *told) {
  BEGIN_ON(handle);
  for (u32 i = 0; i < INSTANCES; i++) {
    if (!gpu->gi[i].ci_used || index--) continue;
    *told = handle_of(gpu, i);
    return nvml_end(SUCCESS);
  }
  return nvml_end(NOT_FOUND);
}
EXPORT int nvmlDeviceIsMigDeviceHandle(nvml_t handle, u32 *told) {
  BEGIN_ON(handle);
  (void)gpu;
  *told = nvml_engine(handle) != 0;
  return nvml_end(SUCCESS);
}
EXPORT int nvmlDeviceGetGpuInstanceId(nvml_t handle, u32 *id) {
  BEGIN_ON(handle);
  (void)gpu;
  if (!nvml_engine(handle)) return nvml_end(INVALID_ARGUMENT);
  *id = instance_of(handle)->id;
  return nvml_end(SUCCESS);
}
EXPORT int nvmlDeviceGetComputeInstanceId(nvml_t handle, u32 *id) {
  BEGIN_ON(handle);
  (void)gpu;
  if (!nvml_engine(handle)) return nvml_end(INVALID_ARGUMENT);
  *id = 0;
  return nvml_end(SUCCESS);
}
EXPORT int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvml_t handle, nvml_t *told) {
  BEGIN_ON(handle);
  (void)gpu;
  *told = nvml_handle(nvml_gpu(handle), 0);
  return nvml_end(SUCCESS);
}
