/* libnvidia-ml.so.1: the session, devices, and what they read. */
#include "nvml.h"

#include <stdio.h>
#include <string.h>

static u32 session; /* how often the driver had been loaded when this process began to ask, plus one */

int nvml_session_stale(void) {
  return !machine || machine->told.missing || session != machine->told.loaded + 1;
}

nvml_t nvml_handle(u32 gpu, u32 engine) {
  return (nvml_t)(uintptr_t)(engine ? 0x100 + gpu * INSTANCES + engine - 1 : gpu + 1);
}
u32 nvml_gpu(nvml_t handle) {
  uintptr_t number = (uintptr_t)handle;
  return (u32)(number >= 0x100 ? (number - 0x100) / INSTANCES : number - 1);
}
u32 nvml_engine(nvml_t handle) {
  uintptr_t number = (uintptr_t)handle;
  return (u32)(number >= 0x100 ? (number - 0x100) % INSTANCES + 1 : 0);
}

static int begin(const char *call, int gpu) {
  int wrong;
  if (nvml_session_stale()) return UNINITIALIZED;
  machine_lock();
  wrong = machine_fault(call, gpu);
  if (wrong) machine_unlock();
  return wrong;
}
int nvml_begin(const char *call) { return begin(call, -1); }
int nvml_begin_on(const char *call, nvml_t handle, gpu_t **gpu) {
  int wrong;
  if (!handle) return nvml_session_stale() ? UNINITIALIZED : INVALID_ARGUMENT;
  wrong = begin(call, (int)nvml_gpu(handle));
  if (wrong) return wrong;
  *gpu = &machine->told.gpu[nvml_gpu(handle)];
  return (*gpu)->lost ? nvml_end(GPU_IS_LOST) : SUCCESS;
}
int nvml_end(int answer) {
  machine_unlock();
  return answer;
}
int nvml_text(char *to, u32 room, const char *text) {
  if (strlen(text) + 1 > room) return INSUFFICIENT_SIZE;
  strcpy(to, text);
  return SUCCESS;
}

EXPORT int nvmlInitWithFlags(u32 flags) {
  (void)flags;
  if (machine_attach() || machine->told.missing) return DRIVER_NOT_LOADED;
  session = machine->told.loaded + 1;
  return SUCCESS;
}
EXPORT int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
EXPORT int nvmlShutdown(void) { return session ? SUCCESS : UNINITIALIZED; }
EXPORT const char *nvmlErrorString(int answer) {
  static char text[32];
  snprintf(text, sizeof text, "NVML error %d", answer);
  return text;
}
EXPORT int nvmlSystemGetDriverVersion(char *text, u32 room) {
  BEGIN();
  return nvml_end(nvml_text(text, room, machine->told.driver));
}
EXPORT int nvmlSystemGetNVMLVersion(char *text, u32 room) {
  BEGIN();
  return nvml_end(nvml_text(text, room, machine->told.driver));
}
EXPORT int nvmlSystemGetCudaDriverVersion(int *version) {
  BEGIN();
  *version = machine->told.cuda;
  return nvml_end(SUCCESS);
}

/* The GPUs that this container was given are numbered anew. */
static u32 seen(u32 *which) {
  u32 count = 0;
  for (u32 gpu = 0; gpu < machine->told.ngpu; gpu++)
    if (machine_sees(machine->told.gpu[gpu].uuid)) which[count++] = gpu;
  return count;
}
EXPORT int nvmlDeviceGetCount_v2(u32 *count) {
  u32 which[GPUS];
  BEGIN();
  *count = seen(which);
  return nvml_end(SUCCESS);
}
EXPORT int nvmlDeviceGetHandleByIndex_v2(u32 index, nvml_t *handle) {
  u32 which[GPUS];
  BEGIN();
  if (index >= seen(which)) return nvml_end(INVALID_ARGUMENT);
  *handle = nvml_handle(which[index], 0);
  return nvml_end(machine->told.gpu[which[index]].lost ? GPU_IS_LOST : SUCCESS);
}
EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, nvml_t *handle) {
  u32 gpu;
  const instance_t *instance;
  BEGIN();
  for (gpu = 0; gpu < machine->told.ngpu && strcmp(uuid, machine->told.gpu[gpu].uuid); gpu++) continue;
  if (gpu < machine->told.ngpu) {
    *handle = nvml_handle(gpu, 0);
    return nvml_end(machine->told.gpu[gpu].lost ? GPU_IS_LOST : SUCCESS);
  }
  instance = instance_by_uuid(uuid, &gpu);
  if (instance) *handle = nvml_handle(gpu, (u32)(instance - machine->told.gpu[gpu].gi) + 1);
  return nvml_end(instance ? SUCCESS : NOT_FOUND);
}
EXPORT int nvmlDeviceGetIndex(nvml_t handle, u32 *index) {
  u32 which[GPUS], count;
  BEGIN_ON(handle);
  count = seen(which);
  for (*index = 0; *index < count && &machine->told.gpu[which[*index]] != gpu; ++*index) continue;
  return nvml_end(SUCCESS);
}
EXPORT int nvmlDeviceGetUUID(nvml_t handle, char *text, u32 room) {
  u32 engine = nvml_engine(handle);
  BEGIN_ON(handle);
  return nvml_end(nvml_text(text, room, engine ? gpu->gi[engine - 1].uuid : gpu->uuid));
}
EXPORT int nvmlDeviceGetName(nvml_t handle, char *text, u32 room) {
  BEGIN_ON(handle);
  return nvml_end(nvml_text(text, room, gpu->name));
}

EXPORT int nvmlDeviceGetMemoryInfo(nvml_t handle, u64 told[3]) {
  u32 engine = nvml_engine(handle);
  BEGIN_ON(handle);
  told[0] = engine_total(nvml_gpu(handle), engine);
  told[1] = gpu_room(nvml_gpu(handle), engine);
  told[2] = told[0] - told[1];
  (void)gpu;
  return nvml_end(SUCCESS);
}
typedef struct {
  u32 version;
  u64 total, reserved, room, used;
} memory_t;
EXPORT int nvmlDeviceGetMemoryInfo_v2(nvml_t handle, memory_t *told) {
  u32 engine = nvml_engine(handle);
  BEGIN_ON(handle);
  told->total = engine_total(nvml_gpu(handle), engine);
  told->reserved = engine ? 0 : gpu->mem_reserved;
  told->room = gpu_room(nvml_gpu(handle), engine);
  told->used = told->total - told->reserved - told->room;
  return nvml_end(SUCCESS);
}

#define READ(name, type, field)                       \
  EXPORT int name(nvml_t handle, type *told) {        \
    BEGIN_ON(handle);                                 \
    *told = gpu->field;                               \
    return nvml_end(SUCCESS);                         \
  }
READ(nvmlDeviceGetMinorNumber, u32, minor)
READ(nvmlDeviceGetPowerUsage, u32, power)
READ(nvmlDeviceGetTotalEnergyConsumption, u64, energy)
READ(nvmlDeviceGetCurrentClocksEventReasons, u64, clock_reasons)
READ(nvmlDeviceGetPersistenceMode, u32, persistence)

EXPORT int nvmlDeviceGetTemperature(nvml_t handle, u32 sensor, u32 *told) {
  (void)sensor;
  BEGIN_ON(handle);
  *told = gpu->temp;
  return nvml_end(SUCCESS);
}
EXPORT int nvmlDeviceGetTemperatureV(nvml_t handle, u32 told[3]) {
  BEGIN_ON(handle);
  told[2] = gpu->temp;
  return nvml_end(SUCCESS);
}
EXPORT int nvmlDeviceGetClockInfo(nvml_t handle, u32 kind, u32 *told) {
  BEGIN_ON(handle);
  if (kind != 1) return nvml_end(NOT_SUPPORTED);
  *told = gpu->sm_clock;
  return nvml_end(SUCCESS);
}
EXPORT int nvmlDeviceGetEccMode(nvml_t handle, u32 *now, u32 *then) {
  BEGIN_ON(handle);
  *now = *then = gpu->ecc_on;
  return nvml_end(SUCCESS);
}
EXPORT int nvmlDeviceGetTotalEccErrors(nvml_t handle, u32 uncorrected, u32 since, u64 *told) {
  (void)since;
  BEGIN_ON(handle);
  *told = uncorrected ? gpu->ecc_uncorr : gpu->ecc_corr;
  return nvml_end(SUCCESS);
}
EXPORT int nvmlDeviceGetRemappedRows(nvml_t handle, u32 *a, u32 *b, u32 *pending, u32 *failed) {
  BEGIN_ON(handle);
  if (gpu->mig) return nvml_end(NOT_SUPPORTED);
  *a = gpu->remap[0];
  *b = gpu->remap[1];
  *pending = gpu->remap[2];
  *failed = gpu->remap[3];
  return nvml_end(SUCCESS);
}
EXPORT int nvmlDeviceGetNvLinkState(nvml_t handle, u32 link, u32 *up) {
  BEGIN_ON(handle);
  if (!gpu->nvlinks_up) return nvml_end(NOT_SUPPORTED);
  *up = link < gpu->nvlinks_up;
  return nvml_end(link < 18 ? SUCCESS : INVALID_ARGUMENT);
}
EXPORT int nvmlDeviceGetTopologyCommonAncestor(nvml_t one, nvml_t other, u32 *level) {
  BEGIN_ON(one);
  *level = one == other ? 0 : 40;
  (void)gpu;
  return nvml_end(SUCCESS);
}
typedef struct {
  char legacy[16];
  u32 domain, bus, device, id, sub;
  char text[32];
} pci_t;
EXPORT int nvmlDeviceGetPciInfo_v3(nvml_t handle, pci_t *told) {
  BEGIN_ON(handle);
  memset(told, 0, sizeof *told);
  strcpy(told->text, gpu->bus);
  told->id = 0x233510de;
  return nvml_end(SUCCESS);
}
typedef struct {
  u32 field, scope;
  int64_t at, latency;
  u32 type, answer;
  u64 value;
} field_t;
EXPORT int nvmlDeviceGetFieldValues(nvml_t handle, int count, field_t *fields) {
  BEGIN_ON(handle);
  for (field_t *field = fields; field < fields + count; field++) {
    field->answer = SUCCESS;
    field->type = field->field == 82 || field->field == 230 ? 1 : 3;
    switch (field->field) {
      case 82: field->value = gpu->temp + 8; break;
      case 83: field->value = gpu->energy; break;
      case 143: field->value = gpu->remap[1]; break;
      case 144: field->value = gpu->remap[2]; break;
      case 145: field->value = gpu->remap[3]; break;
      case 230: field->value = gpu->recovery; break;
      default: field->answer = NOT_SUPPORTED;
    }
  }
  return nvml_end(SUCCESS);
}
