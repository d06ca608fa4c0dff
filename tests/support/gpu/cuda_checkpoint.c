/* libcuda.so.1: a process that is taken off its GPUs and put back by another one. As in the driver a thread of the
   process itself does the work: one that is paused cannot be parked, and waits. */
#define _GNU_SOURCE
#include "cuda.h"

#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FIRST 12080 /* the first version with these calls */
#define OUT_NS (SECOND / 2)
#define IN_NS (2 * SECOND / 5)

static process_t *self;

static int idle(void) {
  for (u32 i = 0; i < CONTEXTS; i++) {
    const context_t *context = &machine->context[i];
    if (context->used && context->process == (u32)cuda_process && !context_idle(context)) return 0;
  }
  return 1;
}
static void become(u32 state) {
  self->state = state;
  cuda_wake(&self->state);
}
static void pass(u64 ns) {
  for (u64 end = machine_now() + ns; machine_now() < end;) machine_until(end);
}

/* What was launched is waited for; nothing new begins meanwhile. */
static int lock(void) {
  u64 limit = self->limit_ms ? machine_now() + self->limit_ms * (SECOND / 1000) : NEVER;
  if (self->state != RUNNING) return ILLEGAL_STATE;
  become(LOCKING);
  while (!idle()) {
    u64 next = NEVER;
    if (machine_now() >= limit) {
      become(RUNNING);
      return NOT_READY;
    }
    for (u32 i = 0; i < CONTEXTS; i++) {
      const context_t *context = &machine->context[i];
      if (!context->used || context->process != (u32)cuda_process || context_idle(context)) continue;
      if (context_finish(context) < next) next = context_finish(context);
    }
    machine_until(next < limit ? next : limit);
  }
  become(LOCKED);
  return CUDA_SUCCESS;
}

#define EACH(context)                                                                          \
  for (context_t *context = machine->context; context < machine->context + CONTEXTS; context++) \
    if (context->used && context->process == (u32)cuda_process)

static int checkpoint(void) {
  u64 cost = OUT_NS;
  int wrong;
  if (self->state != LOCKED) return ILLEGAL_STATE;
  EACH(context) {
    if (context->managed || context->engine) return NOT_SUPPORTED;
    cost += context->memory / 1000000 * machine->told.gpu[context->gpu].out_ns_per_gb / 1000;
  }
  wrong = cuda_park();
  if (wrong) return wrong;
  pass(cost);
  EACH(context) {
    context->parked = context->memory;
    context->memory = machine->told.gpu[context->gpu].stays_bytes;
  }
  become(CHECKPOINTED);
  return CUDA_SUCCESS;
}

/* Without the room it can never be restored again, whatever room there is later. */
static int restore(void) {
  u64 cost = IN_NS;
  if (self->state != CHECKPOINTED) return ILLEGAL_STATE;
  if (self->spoiled) return OPERATING_SYSTEM;
  for (u32 gpu = 0; gpu < machine->told.ngpu; gpu++) {
    u64 wanted = 0;
    EACH(context) if (context->gpu == gpu) wanted += context->parked - context->memory;
    if (wanted > gpu_room(gpu, 0)) {
      self->spoiled = 1;
      return OUT_OF_MEMORY;
    }
    cost += wanted / 1000000 * machine->told.gpu[gpu].in_ns_per_gb / 1000;
  }
  EACH(context) {
    context->memory = context->parked;
    context->parked = 0;
  }
  cuda_unpark((int)self->damaged);
  self->damaged = 0;
  pass(cost);
  become(LOCKED);
  return CUDA_SUCCESS;
}
static int unlock(void) {
  if (self->state != LOCKED) return ILLEGAL_STATE;
  become(RUNNING);
  return CUDA_SUCCESS;
}

static void *serve(void *ignored) {
  static int (*const does[])(void) = {
      [OP_LOCK] = lock, [OP_CHECKPOINT] = checkpoint, [OP_RESTORE] = restore, [OP_UNLOCK] = unlock};
  self->thread = (u32)syscall(SYS_gettid);
  for (;;) {
    machine_lock();
    while (!self->op) {
      u32 asked = self->asked;
      machine_unlock();
      cuda_wait(&self->asked, asked, 60000);
      machine_lock();
    }
    self->result = (u32)does[self->op]();
    self->op = OP_NONE;
    self->answered = self->asked;
    machine_unlock();
    cuda_wake(&self->answered);
  }
  return ignored;
}
/* With the machine locked: the thread waits for it. */
int cuda_start_checkpoints(void) {
  pthread_t thread;
  sigset_t all, before;
  int wrong;
  self = &machine->process[cuda_process];
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  wrong = pthread_create(&thread, NULL, serve, NULL);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return wrong;
}

/* ---- the calls of the other process */
static int found(const char *call, u32 pid, u32 *number) {
  int wrong, at;
  if (machine_attach() || machine->told.missing) return NOT_INITIALIZED;
  if (machine->told.cuda < FIRST) return NOT_SUPPORTED;
  if (geteuid()) return OPERATING_SYSTEM;
  machine_lock();
  wrong = machine_fault(call, -1);
  if (wrong && wrong < FAULT_BREAKS) return cuda_end(wrong);
  if ((at = process_by_pid(pid)) < 0) return cuda_end(NOT_INITIALIZED);
  *number = (u32)at;
  if (wrong == FAULT_DAMAGES) machine->process[at].damaged = 1;
  if (wrong != FAULT_BREAKS) return CUDA_SUCCESS;
  machine->process[at].state = FAILED;
  return cuda_end(UNKNOWN);
}
static int ask(const char *call, u32 pid, u32 op, u32 limit_ms) {
  process_t *process;
  u32 number, ticket, answered, result;
  int wrong = found(call, pid, &number);
  if (wrong) return wrong;
  process = &machine->process[number];
  while (process->op && process->used) { /* another's call */
    machine_unlock();
    cuda_wait(&process->answered, process->answered, 20);
    machine_lock();
  }
  process->op = op;
  process->limit_ms = limit_ms;
  ticket = ++process->asked;
  cuda_wake(&process->asked);
  while (process->used && (answered = process->answered) != ticket) {
    machine_unlock();
    cuda_wait(&process->answered, answered, 100);
    machine_lock(); /* who died meanwhile is no longer used */
  }
  result = process->used ? process->result : NOT_INITIALIZED;
  return cuda_end((int)result);
}
EXPORT int cuCheckpointProcessLock(int pid, const u32 *limit_ms) {
  return ask(__func__, (u32)pid, OP_LOCK, limit_ms ? *limit_ms : 0);
}
EXPORT int cuCheckpointProcessCheckpoint(int pid, const void *options) {
  (void)options;
  return ask(__func__, (u32)pid, OP_CHECKPOINT, 0);
}
/* `options` would name other GPUs, which this machine does not do. A driver that nobody keeps loaded has to be begun by
   whoever asks. */
EXPORT int cuCheckpointProcessRestore(int pid, const void *const *options) {
  if (machine_attach() || (!cuda_initialized() && !machine->told.gpu[0].persistence)) return NOT_INITIALIZED;
  return options && *options ? NOT_SUPPORTED : ask(__func__, (u32)pid, OP_RESTORE, 0);
}
EXPORT int cuCheckpointProcessUnlock(int pid, const void *options) {
  (void)options;
  return ask(__func__, (u32)pid, OP_UNLOCK, 0);
}
EXPORT int cuCheckpointProcessGetState(int pid, u32 *state) {
  u32 number;
  int wrong = found(__func__, (u32)pid, &number);
  if (wrong) return wrong;
  *state = machine->process[number].state == LOCKING ? RUNNING : machine->process[number].state;
  return cuda_end(CUDA_SUCCESS);
}
EXPORT int cuCheckpointProcessGetRestoreThreadId(int pid, int *thread) {
  u32 number;
  int wrong = found(__func__, (u32)pid, &number);
  if (wrong) return wrong;
  *thread = (int)machine->process[number].thread;
  return cuda_end(CUDA_SUCCESS);
}
