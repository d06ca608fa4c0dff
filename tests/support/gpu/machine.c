/* The machine itself: the mapping and its lock, faults, and who lives. */
#define _GNU_SOURCE
#include "machine.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define IN_CONTAINERS "/run/gpu-machine"

machine_t *machine;
static int owners = -1;
static char attached[400];

const char *machine_folder(void) {
  const char *named = getenv("GPU_MACHINE");
  return named && *named ? named : IN_CONTAINERS;
}

static int opened(const char *name, int flags) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", machine_folder(), name);
  return open(path, flags | O_RDWR | O_CLOEXEC, 0666);
}

/* 0, or -1 where there is no machine. `owners` is never closed: closing it would release this process' locks. */
EXPORT int machine_attach(void) {
  int file;
  machine_t *mapped;
  if (machine && !strcmp(attached, machine_folder())) return 0;
  if ((file = opened("state", 0)) < 0) return -1;
  mapped = mmap(NULL, sizeof *mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (mapped == MAP_FAILED) return -1;
  if (mapped->told.magic != MAGIC || (file = opened("owners", 0)) < 0) {
    munmap(mapped, sizeof *mapped);
    return -1;
  }
  owners = file;
  machine = mapped;
  snprintf(attached, sizeof attached, "%s", machine_folder());
  return 0;
}

static u64 wall(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (u64)now.tv_sec * SECOND + (u64)now.tv_nsec;
}

static u64 space(void) {
  static u64 own;
  struct stat found;
  if (!own && !stat("/proc/self/ns/pid", &found)) own = found.st_ino;
  return own;
}

/* For the test's own process: the files of a new machine. */
EXPORT int machine_create(void) {
  pthread_mutexattr_t kind;
  struct timespec now;
  int file = opened("state", O_CREAT);
  machine_t *made;
  if (file < 0 || ftruncate(file, sizeof *made)) return -1;
  made = mmap(NULL, sizeof *made, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (made == MAP_FAILED || (file = opened("owners", O_CREAT)) < 0) return -1;
  close(file);
  pthread_mutexattr_init(&kind);
  pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&made->mutex, &kind);
  clock_gettime(CLOCK_REALTIME, &now);
  made->clock = (u64)now.tv_sec * SECOND;
  made->wall = wall();
  made->told.magic = MAGIC;
  munmap(made, sizeof *made);
  return machine_attach();
}

/* For the test's own process, which has the declared part mapped too: where it lies and how long it is. */
EXPORT u64 machine_offset(void) { return offsetof(machine_t, told); }
EXPORT u64 machine_size(void) { return sizeof(declared_machine_t); }

static void reap(void) {
  for (u32 number = 0; number < PROCESSES; number++) {
    if (!machine->process[number].used || process_alive(number)) continue;
    for (u32 i = 0; i < CONTEXTS; i++) {
      context_t *context = &machine->context[i];
      if (context->used && context->process == number) context->used = 0;
    }
    machine->process[number].used = 0;
  }
}

/* Whoever died while it had the lock left whole entries: each is written before it is counted. */
void machine_lock(void) {
  if (pthread_mutex_lock(&machine->mutex) == EOWNERDEAD) pthread_mutex_consistent(&machine->mutex);
  reap();
  machine_settle();
}

void machine_unlock(void) { pthread_mutex_unlock(&machine->mutex); }

EXPORT u64 machine_now(void) { return machine->clock + (wall() - machine->wall) * machine->told.rate; }

/* The clock reaches this moment: unlocked meanwhile; at once where it moves by waiting alone. May return before. */
void machine_until(u64 moment) {
  u64 now = machine_now(), left;
  if (moment <= now || !machine->told.rate) {
    if (moment > now) machine->clock = moment;
    machine_settle();
    return;
  }
  left = (moment - now) / machine->told.rate + 1;
  if (left > SECOND / 200) left = SECOND / 200;
  machine_unlock();
  nanosleep(&(struct timespec){.tv_nsec = (long)left}, NULL);
  machine_lock();
}

/* For the test: time passes. */
EXPORT void machine_advance(u64 ns) {
  machine_lock();
  machine->clock += ns;
  machine_settle();
  machine_unlock();
}

/* For the test: how fast it passes. */
EXPORT void machine_rate(u32 rate) {
  machine_lock();
  machine->clock = machine_now();
  machine->wall = wall();
  machine->told.rate = rate;
  machine_unlock();
}

/* What a call has to answer instead of doing its work, 0: nothing. */
int machine_fault(const char *call, int gpu) {
  for (u32 i = 0; i < FAULTS; i++) {
    fault_t *fault = &machine->told.fault[i];
    if (!fault->left || strcmp(fault->call, call) || (fault->gpu >= 0 && fault->gpu != gpu)) continue;
    fault->left--;
    if (fault->code == FAULT_KILLED) raise(SIGKILL);
    if (fault->code < FAULT_HANGS || fault->code >= FAULT_BREAKS) return (int)fault->code;
    machine_unlock();
    if (fault->code == FAULT_CRASHES) raise(SIGSEGV);
    for (;;) pause();
  }
  return 0;
}

/* Whether this process' container was given the GPU, or an instance, by the list that the Engine's hook wrote. */
int machine_sees(const char *uuid) {
  char line[128];
  int found = 0;
  FILE *file = fopen(IN_CONTAINERS ".visible", "r");
  if (!file) return 1;
  while (!found && fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = 0;
    found = !strcmp(line, uuid) || !strcmp(line, "all");
  }
  fclose(file);
  return found;
}

static struct flock byte(u32 number) {
  return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = number, .l_len = 1};
}

static int is_self(const process_t *process) {
  return process->pid == (u32)getpid() && process->space == space();
}

/* This process' number, or -1 where the table is full. */
int process_claim(void) {
  for (u32 number = 0; number < PROCESSES; number++) {
    process_t *process = &machine->process[number];
    struct flock lock = byte(number);
    if (process->used || fcntl(owners, F_SETLK, &lock)) continue;
    memset(process, 0, sizeof *process);
    process->pid = (u32)getpid();
    process->space = space();
    process->used = 1;
    return (int)number;
  }
  return -1;
}

int process_alive(u32 number) {
  struct flock lock = byte(number);
  return is_self(&machine->process[number]) || (!fcntl(owners, F_GETLK, &lock) && lock.l_type != F_UNLCK);
}

/* Its pid as the asker knows it; 0 where it knows it not, from another container. */
u32 process_pid(u32 number) {
  const process_t *process = &machine->process[number];
  struct flock lock = byte(number);
  if (process->space == space()) return process->pid;
  return !fcntl(owners, F_GETLK, &lock) && lock.l_type != F_UNLCK ? (u32)lock.l_pid : 0;
}

int process_by_pid(u32 pid) {
  for (u32 number = 0; pid && number < PROCESSES; number++)
    if (machine->process[number].used && process_pid(number) == pid) return (int)number;
  return -1;
}
