/* libcuda.so.1: the session, devices and contexts. */
#define _GNU_SOURCE
#include "cuda.h"

#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define STACK 8

int cuda_process = -1;
device_t cuda_devices[GPUS];
int cuda_device_count;
static int initialized; /* the pid that did: CUDA does not survive a fork */
static ctx_t primary[GPUS];
static __thread ctx_t *stack[STACK];
static __thread u32 depth;

void cuda_wait(u32 *word, u32 value, u32 ms) {
  struct timespec limit = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
  syscall(SYS_futex, word, FUTEX_WAIT, value, &limit, NULL, 0);
}
void cuda_wake(u32 *word) { syscall(SYS_futex, word, FUTEX_WAKE, 1 << 30, NULL, NULL, 0); }

/* Waits while this process may not go on: it is being locked, is locked or parked. */
void cuda_gate(void) {
  u32 *state, seen;
  if (cuda_process < 0) return;
  state = &machine->process[cuda_process].state;
  while ((seen = *state) != RUNNING) {
    machine_unlock();
    cuda_wait(state, seen, 1000);
    machine_lock();
  }
}

int cuda_initialized(void) { return initialized == getpid(); }
int cuda_begin(const char *call) {
  int wrong;
  if (!cuda_initialized()) return NOT_INITIALIZED;
  machine_lock();
  wrong = machine_fault(call, -1);
  if (wrong) return cuda_end(wrong);
  cuda_gate();
  return CUDA_SUCCESS;
}
int cuda_begin_in_context(const char *call, ctx_t **ctx) {
  int wrong = cuda_begin(call);
  if (wrong) return wrong;
  *ctx = depth ? stack[depth - 1] : NULL;
  if (!*ctx || !(*ctx)->retained) return cuda_end(INVALID_CONTEXT);
  if ((*ctx)->wrong) return cuda_end((*ctx)->wrong);
  return cuda_lost(*ctx) ? cuda_end(UNKNOWN) : CUDA_SUCCESS;
}
int cuda_end(int answer) {
  machine_unlock();
  return answer;
}
context_t *cuda_context(const ctx_t *ctx) { return &machine->context[ctx->number]; }
int cuda_lost(const ctx_t *ctx) { return machine->told.missing || machine->told.gpu[cuda_context(ctx)->gpu].lost; }

/* ---- devices */
static const char *uuid_of(device_t device) {
  const gpu_t *gpu = &machine->told.gpu[device.gpu];
  return device.engine ? gpu->gi[device.engine - 1].uuid : gpu->uuid;
}
/* Of GPUs in instances one instance is a device, and then the only one. */
static int found(device_t *to) {
  int count = 0;
  for (u32 gpu = 0; gpu < machine->told.ngpu; gpu++) {
    const gpu_t *told = &machine->told.gpu[gpu];
    if (told->lost) continue;
    if (!told->mig && machine_sees(told->uuid)) to[count++] = (device_t){gpu, 0};
    for (u32 i = 0; told->mig && i < INSTANCES && count < GPUS; i++)
      if (told->gi[i].used && told->gi[i].ci_used && machine_sees(told->gi[i].uuid)) to[count++] = (device_t){gpu, i + 1};
  }
  return count;
}
/* CUDA_VISIBLE_DEVICES: numbers or beginnings of UUIDs, until the first that is none. */
static void choose(void) {
  device_t all[GPUS * INSTANCES];
  int count = found(all);
  const char *named = getenv("CUDA_VISIBLE_DEVICES");
  char names[512], *rest = names, *name;
  cuda_device_count = 0;
  snprintf(names, sizeof names, "%s", named ? named : "");
  for (int i = 0; !named && i < count && cuda_device_count < GPUS; i++) cuda_devices[cuda_device_count++] = all[i];
  while (named && (name = strsep(&rest, ",")) && *name && cuda_device_count < GPUS) {
    char *end;
    long number = strtol(name, &end, 10);
    int chosen = -1;
    if (!*end && number >= 0 && number < count) chosen = (int)number;
    for (int i = 0; *end && chosen < 0 && i < count; i++)
      if (!strncmp(uuid_of(all[i]), name, strlen(name))) chosen = i;
    if (chosen < 0) break;
    cuda_devices[cuda_device_count++] = all[chosen];
  }
  for (int i = 0; i < cuda_device_count; i++)
    if (cuda_devices[i].engine) {
      cuda_devices[0] = cuda_devices[i];
      cuda_device_count = 1;
    }
}

EXPORT int cuInit(u32 flags) {
  int wrong;
  if (flags) return INVALID_VALUE;
  if (cuda_initialized()) return CUDA_SUCCESS;
  if (initialized) return NOT_INITIALIZED; /* forked */
  if (machine_attach() || machine->told.missing) return NO_DEVICE;
  machine_lock();
  wrong = machine_fault("cuInit", -1);
  if (!wrong) choose();
  machine_unlock();
  if (wrong || !cuda_device_count) return wrong ? wrong : NO_DEVICE;
  initialized = getpid();
  return CUDA_SUCCESS;
}
EXPORT int cuDriverGetVersion(int *version) {
  if (machine_attach()) return NO_DEVICE;
  *version = machine->told.cuda;
  return CUDA_SUCCESS;
}
EXPORT int cuDeviceGetCount(int *count) {
  CUDA_BEGIN();
  *count = cuda_device_count;
  return cuda_end(CUDA_SUCCESS);
}
static int known(int device) { return device >= 0 && device < cuda_device_count; }
EXPORT int cuDeviceGet(int *device, int ordinal) {
  CUDA_BEGIN();
  *device = ordinal;
  return cuda_end(known(ordinal) ? CUDA_SUCCESS : INVALID_DEVICE);
}
EXPORT int cuDeviceGetName(char *name, int room, int device) {
  CUDA_BEGIN();
  if (!known(device)) return cuda_end(INVALID_DEVICE);
  snprintf(name, (size_t)room, "%s", machine->told.gpu[cuda_devices[device].gpu].name);
  return cuda_end(CUDA_SUCCESS);
}
EXPORT int cuDeviceGetUuid_v2(unsigned char uuid[16], int device) {
  const char *text;
  CUDA_BEGIN();
  if (!known(device)) return cuda_end(INVALID_DEVICE);
  text = uuid_of(cuda_devices[device]) + 4;
  for (u32 i = 0; i < 16; text += 2) {
    if (*text == '-') text++;
    sscanf(text, "%2hhx", &uuid[i++]);
  }
  return cuda_end(CUDA_SUCCESS);
}
EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device) {
  CUDA_BEGIN();
  if (!known(device)) return cuda_end(INVALID_DEVICE);
  *bytes = engine_total(cuda_devices[device].gpu, cuda_devices[device].engine);
  return cuda_end(CUDA_SUCCESS);
}
/* Multiprocessors (16) and compute capability (75, 76) alone. */
EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device) {
  u32 engine;
  CUDA_BEGIN();
  if (!known(device)) return cuda_end(INVALID_DEVICE);
  engine = cuda_devices[device].engine;
  switch (attribute) {
    case 16:
      *value = 132;
      if (engine)
        *value = (int)profile_by_id(machine->told.gpu[cuda_devices[device].gpu].gi[engine - 1].profile)->multiprocessors;
      break;
    case 75: *value = 9; break;
    case 76: *value = 0; break;
    default: return cuda_end(INVALID_VALUE);
  }
  return cuda_end(CUDA_SUCCESS);
}

/* ---- contexts */
static int made(ctx_t *ctx, int device) {
  u32 gpu = cuda_devices[device].gpu, engine = cuda_devices[device].engine, number;
  u64 bytes = machine->told.gpu[gpu].context_bytes;
  context_t *context;
  if (gpu_room(gpu, engine) < bytes) return OUT_OF_MEMORY;
  for (number = 0; number < CONTEXTS && machine->context[number].used; number++) continue;
  if (number == CONTEXTS) return OUT_OF_MEMORY;
  if (cuda_process < 0 && ((cuda_process = process_claim()) < 0 || cuda_start_checkpoints())) return OUT_OF_MEMORY;
  context = &machine->context[number];
  memset(context, 0, sizeof *context);
  context->process = (u32)cuda_process;
  context->gpu = gpu;
  context->engine = engine;
  context->memory = bytes;
  context->used = 1;
  *ctx = (ctx_t){.number = number, .device = device, .retained = 1};
  return CUDA_SUCCESS;
}
static void ended(ctx_t *ctx) {
  cuda_free_all(ctx);
  cuda_no_streams(ctx);
  cuda_context(ctx)->used = 0;
  ctx->retained = 0;
}

EXPORT int cuDevicePrimaryCtxRetain(ctx_t **ctx, int device) {
  int answer = CUDA_SUCCESS;
  CUDA_BEGIN();
  if (!known(device)) return cuda_end(INVALID_DEVICE);
  *ctx = &primary[device];
  if (!(*ctx)->retained) answer = made(*ctx, device);
  else (*ctx)->retained++;
  return cuda_end(answer);
}
EXPORT int cuDevicePrimaryCtxRelease_v2(int device) {
  CUDA_BEGIN();
  if (!known(device)) return cuda_end(INVALID_DEVICE);
  if (!primary[device].retained) return cuda_end(INVALID_CONTEXT);
  if (primary[device].retained > 1) primary[device].retained--;
  else ended(&primary[device]);
  return cuda_end(CUDA_SUCCESS);
}
EXPORT int cuDevicePrimaryCtxReset_v2(int device) {
  CUDA_BEGIN();
  if (!known(device)) return cuda_end(INVALID_DEVICE);
  if (primary[device].retained) ended(&primary[device]);
  return cuda_end(CUDA_SUCCESS);
}
EXPORT int cuDevicePrimaryCtxGetState(int device, u32 *flags, int *active) {
  CUDA_BEGIN();
  if (!known(device)) return cuda_end(INVALID_DEVICE);
  *flags = 0;
  *active = primary[device].retained > 0;
  return cuda_end(CUDA_SUCCESS);
}
static int put(ctx_t *ctx) {
  if (depth == STACK) return INVALID_VALUE;
  stack[depth++] = ctx;
  return CUDA_SUCCESS;
}
EXPORT int cuCtxCreate_v2(ctx_t **ctx, u32 flags, int device) {
  int answer;
  (void)flags;
  CUDA_BEGIN();
  if (!known(device)) return cuda_end(INVALID_DEVICE);
  *ctx = calloc(1, sizeof **ctx);
  answer = made(*ctx, device);
  if (!answer) answer = put(*ctx);
  return cuda_end(answer);
}
EXPORT int cuCtxCreate_v4(ctx_t **ctx, const void *parameters, u32 flags, int device) {
  (void)parameters;
  return cuCtxCreate_v2(ctx, flags, device);
}
EXPORT int cuCtxDestroy_v2(ctx_t *ctx) {
  CUDA_BEGIN();
  if (!ctx || !ctx->retained) return cuda_end(INVALID_CONTEXT);
  ended(ctx);
  if (depth && stack[depth - 1] == ctx) depth--;
  return cuda_end(CUDA_SUCCESS); /* the handle stays: another thread may still have it */
}
EXPORT int cuCtxSetCurrent(ctx_t *ctx) {
  CUDA_BEGIN();
  depth = ctx ? 1 : 0;
  stack[0] = ctx;
  return cuda_end(CUDA_SUCCESS);
}
EXPORT int cuCtxGetCurrent(ctx_t **ctx) {
  CUDA_BEGIN();
  *ctx = depth ? stack[depth - 1] : NULL;
  return cuda_end(CUDA_SUCCESS);
}
EXPORT int cuCtxPushCurrent_v2(ctx_t *ctx) {
  CUDA_BEGIN();
  return cuda_end(put(ctx));
}
EXPORT int cuCtxPopCurrent_v2(ctx_t **ctx) {
  CUDA_BEGIN();
  if (!depth) return cuda_end(INVALID_CONTEXT);
  depth--;
  if (ctx) *ctx = stack[depth];
  return cuda_end(CUDA_SUCCESS);
}
EXPORT int cuCtxGetDevice(int *device) {
  CUDA_BEGIN_IN_CONTEXT();
  *device = ctx->device;
  return cuda_end(CUDA_SUCCESS);
}
EXPORT int cuCtxSynchronize(void) {
  CUDA_BEGIN_IN_CONTEXT();
  return cuda_end(cuda_done(ctx, cuda_context(ctx)->queued));
}

static const struct {
  int code;
  const char *name, *text;
} ERRORS[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {OPERATING_SYSTEM, "CUDA_ERROR_OPERATING_SYSTEM", "OS call failed or operation not supported on this OS"},
    {ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"},
    {NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};
static int told(int code, const char **text, int name) {
  for (u32 i = 0; i < sizeof ERRORS / sizeof *ERRORS; i++)
    if (ERRORS[i].code == code) {
      *text = name ? ERRORS[i].name : ERRORS[i].text;
      return CUDA_SUCCESS;
    }
  *text = NULL;
  return INVALID_VALUE;
}
EXPORT int cuGetErrorName(int code, const char **text) { return told(code, text, 1); }
EXPORT int cuGetErrorString(int code, const char **text) { return told(code, text, 0); }
