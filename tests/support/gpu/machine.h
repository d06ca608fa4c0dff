/* One machine with GPUs, behind both libraries: a file that every process maps, whatever container it is in. `state` is
   the mapping; on `owners` each process with a context locks the byte of its number, so that the kernel tells who lives
   and by which pid the asker knows it. Everything is read and written between machine_lock and machine_unlock. */
#ifndef MACHINE_H
#define MACHINE_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

typedef uint32_t u32;
typedef uint64_t u64;

#define GPUS 16
#define INSTANCES 8
#define DECLARED 8
#define XIDS 32
#define FAULTS 16
#define PROCESSES 48
#define CONTEXTS 64
#define DEPTH 1024 /* launches that a context may be ahead of its GPU; the next one waits */
#define TIMED 1024 /* events of a process that hold a time */
#define SPANS 64

#define EXPORT __attribute__((visibility("default")))
#define SECOND 1000000000ull
#define NEVER (~0ull)
#define MAGIC 0x4e564d4d

/* The first part has a mirror in machine.py: what a test declares. */
typedef struct {
  u32 pid, pad;
  u64 used;
  u32 gi, ci;
} declared_t;

typedef struct {
  u32 used, id, profile, start, size, cprofile, ci_used, ci_id;
  char uuid[64];
} instance_t;

typedef struct {
  char uuid[64], name[96], bus[32];
  u64 mem_total, mem_used, mem_reserved, context_bytes, stays_bytes; /* stays: what a checkpoint leaves on the GPU */
  u64 energy, clock_reasons, ecc_uncorr, ecc_corr;
  u64 out_ns_per_gb, in_ns_per_gb;
  u32 gpu_util, mem_util, temp, power, lost, mig, minor, remap[4];
  u32 recovery, nvlinks_up, ecc_on, gpm, persistence, sm_clock, nproc;
  declared_t proc[DECLARED];
  instance_t gi[INSTANCES];
} gpu_t;

typedef struct {
  u32 gpu, taken;
  u64 type, data;
  u32 gi, ci;
} xid_t;

/* What the named call answers instead, the next `left` times. gpu: only for this one, or -1. Codes from 0x10000: see
   below. */
typedef struct {
  char call[56];
  int32_t gpu;
  u32 code, left;
} fault_t;
#define FAULT_HANGS 0x10000
#define FAULT_CRASHES 0x10001 /* SIGSEGV, the machine unlocked */
#define FAULT_KILLED 0x10002  /* SIGKILL, the machine locked */
#define FAULT_BREAKS 0x10003  /* a restore: the process is lost (FAILED) */
#define FAULT_DAMAGES 0x10004 /* a restore: it says that it worked, and each block of memory has a wrong byte */

typedef struct {
  u32 magic, ngpu, missing, loaded, nxid, waits; /* loaded: how often the driver was; waits: for events */
  int32_t cuda;
  u32 rate; /* GPU seconds in a second. 0: time stands still, but for what somebody waits for */
  char driver[32];
  fault_t fault[FAULTS];
  xid_t xid[XIDS];
  gpu_t gpu[GPUS];
} declared_machine_t;

/* The second part is the libraries' own. */
typedef struct {
  u64 busy, sm, occupancy, tensor, dram; /* ns; but for the first times percent */
} counters_t;

typedef struct {
  u64 from[SPANS], to[SPANS];
  u32 next, pad;
} spans_t;

typedef struct {
  u64 at; /* done until then */
  u32 turn, running; /* contexts by number + 1 */
  counters_t total;
  spans_t spans;
} engine_t; /* what runs one kernel at a time: a GPU, or an instance of it */

enum { WORK_KERNEL, WORK_RECORD, WORK_AWAIT };
typedef struct {
  u32 kind, event; /* number in the process' table */
  u64 ns, turn;    /* turn: which recording of the event */
  u32 sm, occupancy, tensor, dram;
} work_t;

typedef struct {
  u32 used, process, gpu, engine, count, pad; /* process: number in the table; engine: 0 the GPU, else instance + 1 */
  u64 memory, managed, parked; /* bytes */
  u64 queued, done;          /* works ever */
  u64 busy;                  /* ns */
  spans_t spans;
  work_t work[DEPTH];
} context_t;

enum { RUNNING, LOCKED, CHECKPOINTED, FAILED, LOCKING = 100 };
enum { OP_NONE, OP_LOCK, OP_CHECKPOINT, OP_RESTORE, OP_UNLOCK };
typedef struct {
  u64 turn, at; /* at: 0 until the GPU came to it */
} timed_t;

typedef struct {
  u32 used, pid, thread, state; /* pid as the process itself knows it */
  u64 space;                    /* its pid namespace */
  u32 op, result, asked, answered, limit_ms, spoiled, damaged;
  timed_t event[TIMED];
} process_t;

typedef struct {
  pthread_mutex_t mutex;
  declared_machine_t told;
  u64 clock, wall; /* ns of the machine at this moment of CLOCK_MONOTONIC */
  engine_t engine[GPUS][INSTANCES + 1];
  process_t process[PROCESSES];
  context_t context[CONTEXTS];
} machine_t;

/* An H200's, read on one: number in NVML's list, the driver's number, slices of it and of its memory, multiprocessors,
   memory, how many fit, where they may begin. */
typedef struct {
  u32 slot, id, slices, size, multiprocessors, mib, fit;
  int at[8];
  const char *name;
} profile_t;
extern const profile_t profiles[];
#define PROFILES 7

extern machine_t *machine;

int machine_attach(void);
const char *machine_folder(void);
void machine_lock(void);
void machine_unlock(void);
u64 machine_now(void);
void machine_until(u64 moment);
void machine_settle(void);
int machine_fault(const char *call, int gpu);
int machine_sees(const char *uuid);

int process_claim(void);
int process_alive(u32 number);
u32 process_pid(u32 number);
int process_by_pid(u32 pid);

u64 engine_busy(const spans_t *spans, u64 from, u64 to);
u64 context_finish(const context_t *context);
int context_idle(const context_t *context);
u64 gpu_memory(u32 gpu, u32 engine);
u64 gpu_room(u32 gpu, u32 engine);
u64 engine_total(u32 gpu, u32 engine);
const profile_t *profile_by_id(u32 id);
instance_t *instance_by_uuid(const char *uuid, u32 *gpu);

#endif
