/* What nvml.c has no words for: calls that answer with an error, and a driver that is away or was loaded anew. Its
   state lies beside the double's own, in a file of the same name and ".faults"; without that file nothing is wrong. */
#define nvmlInitWithFlags plain_init_with
#define nvmlInit_v2 plain_init
#define nvmlDeviceGetCount_v2 plain_count
#define nvmlEventSetCreate plain_set
#define nvmlDeviceRegisterEvents plain_register
#define nvmlEventSetWait_v2 plain_wait
#define nvmlDeviceGetComputeRunningProcesses_v3 plain_processes
#include "nvml.c"
#undef nvmlInitWithFlags
#undef nvmlInit_v2
#undef nvmlDeviceGetCount_v2
#undef nvmlEventSetCreate
#undef nvmlDeviceRegisterEvents
#undef nvmlEventSetWait_v2
#undef nvmlDeviceGetComputeRunningProcesses_v3

typedef struct {
  u32 loaded, missing, set, wait, waits, registering[MAXG], processes;
} faults_t;
static faults_t *F;
static u32 session;

static void faults(void) {
  char path[512];
  const char *state = getenv("FAKE_NVML_STATE");
  int file;
  if (F || !state) return;
  snprintf(path, sizeof path, "%s.faults", state);
  if ((file = open(path, O_RDWR)) < 0) return;
  F = mmap(0, sizeof *F, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (F == MAP_FAILED) F = 0;
  close(file);
}
/* A driver that was loaded anew knows none of those who asked the one before. */
static int stale(void) { return F && (F->missing || F->loaded != session); }

int nvmlInitWithFlags(u32 flags) {
  int result;
  faults();
  if (F && F->missing) return NODRV;
  result = plain_init_with(flags);
  if (result == OK && stale()) {
    session = F->loaded;
    memset(mask, 0, sizeof mask);
  }
  return result;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlDeviceGetCount_v2(u32 *count) { return stale() ? UNINIT : plain_count(count); }
int nvmlEventSetCreate(void **set) { return stale() ? UNINIT : F && F->set ? F->set : plain_set(set); }
int nvmlDeviceRegisterEvents(void *device, u64 types, void *set) {
  u32 wrong = F ? F->registering[(uintptr_t)device - 1] : 0;
  return stale() ? UNINIT : wrong ? wrong : plain_register(device, types, set);
}
int nvmlEventSetWait_v2(void *set, evd_t *event, u32 ms) {
  if (F) __sync_fetch_and_add(&F->waits, 1);
  return stale() ? UNINIT : F && F->wait ? F->wait : plain_wait(set, event, ms);
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, u32 *count, proc_t *found) {
  return F && F->processes ? F->processes : plain_processes(device, count, found);
}
