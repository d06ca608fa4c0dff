/* libnvidia-ml.so.1: what programs do on the GPUs, and the errors that GPUs tell of. */
#include "nvml.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static u32 percent(u64 part, u64 whole) { return whole ? (u32)((100 * part + whole / 2) / whole) : 0; }

/* In the machine's last second; what the test declared, where that is more. */
EXPORT int nvmlDeviceGetUtilizationRates(nvml_t handle, u32 told[2]) {
  u64 now;
  BEGIN_ON(handle);
  if (nvml_engine(handle) || gpu->mig) return nvml_end(NOT_SUPPORTED);
  now = machine_now();
  told[0] = percent(engine_busy(&machine->engine[nvml_gpu(handle)][0].spans, now - SECOND, now), SECOND);
  if (told[0] < gpu->gpu_util) told[0] = gpu->gpu_util;
  told[1] = gpu->mem_util;
  return nvml_end(SUCCESS);
}

typedef struct {
  u32 pid;
  u64 used;
  u32 gi, ci;
} running_t;
static u32 running(u32 number, u32 engine, running_t *to, u32 room) {
  const gpu_t *gpu = &machine->told.gpu[number];
  u32 count = 0;
  for (u32 i = 0; i < gpu->nproc; i++, count++)
    if (count < room) to[count] = (running_t){gpu->proc[i].pid, gpu->proc[i].used, gpu->proc[i].gi, gpu->proc[i].ci};
  for (u32 i = 0; i < CONTEXTS; i++) {
    const context_t *context = &machine->context[i];
    u32 pid;
    if (!context->used || context->gpu != number || (engine && context->engine != engine)) continue;
    if (!context->memory || !(pid = process_pid(context->process))) continue; /* parked, or in another container */
    if (count < room)
      to[count] = (running_t){pid, context->memory, context->engine ? gpu->gi[context->engine - 1].id : ~0u,
                              context->engine ? 0 : ~0u};
    count++;
  }
  return count;
}
EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(nvml_t handle, u32 *count, running_t *told) {
  u32 found, room = *count;
  BEGIN_ON(handle);
  (void)gpu;
  *count = found = running(nvml_gpu(handle), nvml_engine(handle), told, told ? room : 0);
  return nvml_end(found > (told ? room : 0) ? INSUFFICIENT_SIZE : SUCCESS);
}

typedef struct {
  u32 pid;
  u64 at;
  u32 sm, memory, encoder, decoder;
} sample_t;
/* Of the time since `since` (us), at most a second. */
EXPORT int nvmlDeviceGetProcessUtilization(nvml_t handle, sample_t *told, u32 *count, u64 since) {
  u32 found = 0, room = told ? *count : 0;
  u64 now, from;
  BEGIN_ON(handle);
  if (gpu->mig) return nvml_end(NOT_SUPPORTED);
  now = machine_now();
  from = since * 1000 > now - SECOND && since * 1000 < now ? since * 1000 : now - SECOND;
  for (u32 i = 0; i < CONTEXTS; i++) {
    const context_t *context = &machine->context[i];
    u32 pid, busy;
    if (!context->used || context->gpu != nvml_gpu(handle) || !(pid = process_pid(context->process))) continue;
    busy = percent(engine_busy(&context->spans, from, now), now - from);
    if (!busy) continue;
    if (found < room) told[found] = (sample_t){.pid = pid, .at = now / 1000, .sm = busy};
    found++;
  }
  *count = found;
  return nvml_end(!found ? NOT_FOUND : found > room ? INSUFFICIENT_SIZE : SUCCESS);
}

/* ---- GPM: two readings of counters, and what lies between them */
typedef struct {
  u64 at;
  counters_t total;
} reading_t;
typedef struct {
  u32 id;
  int answer;
  double value;
  const char *names[3];
} metric_t;
typedef struct {
  u32 version, count;
  reading_t *from, *to;
  metric_t metric[];
} metrics_t;

EXPORT int nvmlGpmQueryDeviceSupport(nvml_t handle, u32 told[2]) {
  BEGIN_ON(handle);
  told[1] = gpu->gpm;
  return nvml_end(SUCCESS);
}
EXPORT int nvmlGpmSampleAlloc(reading_t **sample) {
  BEGIN();
  *sample = calloc(1, sizeof **sample);
  return nvml_end(SUCCESS);
}
EXPORT int nvmlGpmSampleFree(reading_t *sample) {
  BEGIN();
  free(sample);
  return nvml_end(SUCCESS);
}
static int take(u32 gpu, u32 engine, reading_t *sample) {
  if (!machine->told.gpu[gpu].gpm) return NOT_SUPPORTED;
  sample->at = machine_now();
  sample->total = machine->engine[gpu][engine].total;
  return SUCCESS;
}
EXPORT int nvmlGpmSampleGet(nvml_t handle, reading_t *sample) {
  BEGIN_ON(handle);
  if (gpu->mig) return nvml_end(NOT_SUPPORTED);
  return nvml_end(take(nvml_gpu(handle), 0, sample));
}
EXPORT int nvmlGpmMigSampleGet(nvml_t handle, u32 instance, reading_t *sample) {
  BEGIN_ON(handle);
  for (u32 i = 0; i < INSTANCES; i++)
    if (gpu->gi[i].used && gpu->gi[i].id == instance) return nvml_end(take(nvml_gpu(handle), i + 1, sample));
  return nvml_end(NOT_FOUND);
}
EXPORT int nvmlGpmMetricsGet(metrics_t *asked) {
  BEGIN();
  if (asked->version != 1 || asked->from->at >= asked->to->at) return nvml_end(INVALID_ARGUMENT);
  for (u32 i = 0; i < asked->count; i++) {
    metric_t *metric = &asked->metric[i];
    const counters_t *from = &asked->from->total, *to = &asked->to->total;
    double span = (double)(asked->to->at - asked->from->at);
    metric->answer = SUCCESS;
    switch (metric->id) {
      case 1: metric->value = 100 * (double)(to->busy - from->busy) / span; break;
      case 2: metric->value = (double)(to->sm - from->sm) / span; break;
      case 3: metric->value = (double)(to->occupancy - from->occupancy) / span; break;
      case 5: metric->value = (double)(to->tensor - from->tensor) / span; break;
      case 10: metric->value = (double)(to->dram - from->dram) / span; break;
      default: metric->answer = NOT_SUPPORTED;
    }
  }
  return nvml_end(SUCCESS);
}

/* ---- events */
typedef struct {
  nvml_t device;
  u64 type, data;
  u32 gi, ci;
} event_t;
static u64 wanted[GPUS];
static u32 heard; /* the driver's number that this was asked of */

EXPORT int nvmlEventSetCreate(void **set) {
  BEGIN();
  memset(wanted, 0, sizeof wanted);
  heard = machine->told.loaded;
  *set = wanted;
  return nvml_end(SUCCESS);
}
EXPORT int nvmlEventSetFree(void *set) {
  (void)set;
  return SUCCESS;
}
EXPORT int nvmlDeviceGetSupportedEventTypes(nvml_t handle, u64 *types) {
  BEGIN_ON(handle);
  *types = 0xff9f;
  (void)gpu;
  return nvml_end(SUCCESS);
}
EXPORT int nvmlDeviceRegisterEvents(nvml_t handle, u64 types, void *set) {
  (void)set;
  BEGIN_ON(handle);
  wanted[gpu - machine->told.gpu] |= types;
  return nvml_end(SUCCESS);
}
static int taken(event_t *told) {
  for (u32 i = 0; i < machine->told.nxid && i < XIDS; i++) {
    xid_t *xid = &machine->told.xid[i];
    if (xid->taken || !(wanted[xid->gpu] & xid->type)) continue;
    xid->taken = 1;
    *told = (event_t){nvml_handle(xid->gpu, 0), xid->type, xid->data, xid->gi, xid->ci};
    return 1;
  }
  return 0;
}
EXPORT int nvmlEventSetWait_v2(void *set, event_t *told, u32 ms) {
  (void)set;
  for (u32 waited = 0;; waited += 5) {
    int found;
    if (!waited && machine) __sync_fetch_and_add(&machine->told.waits, 1);
    BEGIN();
    found = heard == machine->told.loaded && taken(told);
    machine_unlock();
    if (found) return SUCCESS;
    if (waited >= ms) return TIMEOUT;
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
  }
}
