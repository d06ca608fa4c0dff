/* libcuda.so.1: functions by name and version, which is how programs built for one version find them in another. */
#include "cuda.h"

#include <string.h>

enum { FOUND, NO_SUCH, TOO_OLD };

/* Name without the version's ending, the first version that has this form, the form. */
#define FORMS(X)                                                                                                        \
  X(cuInit, 2000, cuInit) X(cuDriverGetVersion, 2020, cuDriverGetVersion)                                               \
  X(cuGetErrorName, 6000, cuGetErrorName) X(cuGetErrorString, 6000, cuGetErrorString)                                   \
  X(cuDeviceGet, 2000, cuDeviceGet) X(cuDeviceGetCount, 2000, cuDeviceGetCount)                                         \
  X(cuDeviceGetName, 2000, cuDeviceGetName) X(cuDeviceGetUuid, 11040, cuDeviceGetUuid_v2)                               \
  X(cuDeviceTotalMem, 3020, cuDeviceTotalMem_v2) X(cuDeviceGetAttribute, 2000, cuDeviceGetAttribute)                    \
  X(cuDevicePrimaryCtxRetain, 7000, cuDevicePrimaryCtxRetain)                                                           \
  X(cuDevicePrimaryCtxRelease, 11000, cuDevicePrimaryCtxRelease_v2)                                                     \
  X(cuDevicePrimaryCtxReset, 11000, cuDevicePrimaryCtxReset_v2)                                                         \
  X(cuDevicePrimaryCtxGetState, 7000, cuDevicePrimaryCtxGetState)                                                       \
  X(cuCtxCreate, 3020, cuCtxCreate_v2) X(cuCtxCreate, 13000, cuCtxCreate_v4) X(cuCtxDestroy, 4000, cuCtxDestroy_v2)      \
  X(cuCtxSetCurrent, 4000, cuCtxSetCurrent) X(cuCtxGetCurrent, 4000, cuCtxGetCurrent)                                   \
  X(cuCtxPushCurrent, 4000, cuCtxPushCurrent_v2) X(cuCtxPopCurrent, 4000, cuCtxPopCurrent_v2)                           \
  X(cuCtxGetDevice, 2000, cuCtxGetDevice) X(cuCtxSynchronize, 2000, cuCtxSynchronize)                                   \
  X(cuMemAlloc, 3020, cuMemAlloc_v2) X(cuMemAllocPitch, 3020, cuMemAllocPitch_v2)                                       \
  X(cuMemAllocManaged, 6000, cuMemAllocManaged) X(cuMemAllocAsync, 11020, cuMemAllocAsync)                              \
  X(cuMemFree, 3020, cuMemFree_v2) X(cuMemFreeAsync, 11020, cuMemFreeAsync)                                             \
  X(cuMemAllocHost, 3020, cuMemAllocHost_v2) X(cuMemFreeHost, 2000, cuMemFreeHost)                                      \
  X(cuMemGetInfo, 3020, cuMemGetInfo_v2) X(cuMemcpy, 4000, cuMemcpy) X(cuMemcpyHtoD, 3020, cuMemcpyHtoD_v2)             \
  X(cuMemcpyDtoH, 3020, cuMemcpyDtoH_v2) X(cuMemcpyDtoD, 3020, cuMemcpyDtoD_v2)                                         \
  X(cuMemcpyHtoDAsync, 3020, cuMemcpyHtoDAsync_v2) X(cuMemcpyDtoHAsync, 3020, cuMemcpyDtoHAsync_v2)                     \
  X(cuMemsetD8, 3020, cuMemsetD8_v2) X(cuMemsetD32, 3020, cuMemsetD32_v2)                                               \
  X(cuModuleLoadData, 2000, cuModuleLoadData) X(cuModuleGetFunction, 2000, cuModuleGetFunction)                         \
  X(cuModuleUnload, 2000, cuModuleUnload) X(cuLaunchKernel, 4000, cuLaunchKernel)                                       \
  X(cuLaunchCooperativeKernel, 9000, cuLaunchCooperativeKernel) X(cuLaunchKernelEx, 11060, cuLaunchKernelEx)            \
  X(cuStreamCreate, 2000, cuStreamCreate) X(cuStreamCreateWithPriority, 5050, cuStreamCreateWithPriority)               \
  X(cuStreamDestroy, 4000, cuStreamDestroy_v2) X(cuStreamSynchronize, 2000, cuStreamSynchronize)                        \
  X(cuStreamQuery, 2000, cuStreamQuery) X(cuStreamWaitEvent, 3020, cuStreamWaitEvent)                                   \
  X(cuStreamBeginCapture, 10010, cuStreamBeginCapture_v2) X(cuStreamEndCapture, 10000, cuStreamEndCapture)              \
  X(cuStreamIsCapturing, 10000, cuStreamIsCapturing) X(cuEventCreate, 2000, cuEventCreate)                              \
  X(cuEventDestroy, 4000, cuEventDestroy_v2) X(cuEventRecord, 2000, cuEventRecord) X(cuEventQuery, 2000, cuEventQuery)   \
  X(cuEventSynchronize, 2000, cuEventSynchronize) X(cuEventElapsedTime, 2000, cuEventElapsedTime)                       \
  X(cuGraphGetNodes, 10000, cuGraphGetNodes) X(cuGraphInstantiate, 12000, cuGraphInstantiateWithFlags)                  \
  X(cuGraphInstantiateWithFlags, 11040, cuGraphInstantiateWithFlags) X(cuGraphLaunch, 10000, cuGraphLaunch)             \
  X(cuGraphDestroy, 10000, cuGraphDestroy) X(cuGraphExecDestroy, 10000, cuGraphExecDestroy)                             \
  X(cuCheckpointProcessLock, 12080, cuCheckpointProcessLock)                                                            \
  X(cuCheckpointProcessCheckpoint, 12080, cuCheckpointProcessCheckpoint)                                                \
  X(cuCheckpointProcessRestore, 12080, cuCheckpointProcessRestore)                                                      \
  X(cuCheckpointProcessUnlock, 12080, cuCheckpointProcessUnlock)                                                        \
  X(cuCheckpointProcessGetState, 12080, cuCheckpointProcessGetState)                                                    \
  X(cuCheckpointProcessGetRestoreThreadId, 12080, cuCheckpointProcessGetRestoreThreadId)                                \
  X(cuGetProcAddress, 11030, cuGetProcAddress) X(cuGetProcAddress, 12000, cuGetProcAddress_v2)

#define DECLARE(name, since, form) EXPORT extern int form();
FORMS(DECLARE)

static const struct {
  const char *name;
  int since;
  int (*form)();
} forms[] = {
#define ROW(name, since, form) {#name, since, form},
    FORMS(ROW)};

/* The newest form that both the asker's version and the driver's have; both kinds of default stream have the same. */
EXPORT int cuGetProcAddress_v2(const char *name, void **function, int version, u64 flags, int *status) {
  int best = 0, known = 0;
  (void)flags;
  if (machine_attach()) return NOT_INITIALIZED;
  *function = NULL;
  for (u32 i = 0; i < sizeof forms / sizeof *forms; i++) {
    if (strcmp(name, forms[i].name)) continue;
    known = 1;
    if (forms[i].since > version || forms[i].since > machine->told.cuda || forms[i].since < best) continue;
    best = forms[i].since;
    memcpy(function, &forms[i].form, sizeof *function);
  }
  if (status) *status = best ? FOUND : known ? TOO_OLD : NO_SUCH;
  return best ? CUDA_SUCCESS : NOT_FOUND;
}
EXPORT int cuGetProcAddress(const char *name, void **function, int version, u64 flags) {
  return cuGetProcAddress_v2(name, function, version, flags, NULL);
}
