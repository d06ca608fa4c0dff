/* trainer: stands for a training on a GPU. It finds CUDA as PyTorch does, keeps its weights on the GPU, and prints
   `step N loss X` for each step. SIGTERM: it stops after the step. At the end it looks whether its memory is intact.
     --steps N     how many; 0: until it is stopped
     --step-us N   GPU time of a step
     --memory-mb N what it holds beside its weights
     --managed-mb N  of it as managed memory
     --host-us N   time without the GPU after each step
     --graph       steps are replays of a graph */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NUMBERS 4096
#define VERSION 13000
#define FILLING 0xa5

typedef uint64_t u64;
typedef int (*lookup_t)(const char *, void **, int, u64, int *);
static lookup_t lookup;
static volatile sig_atomic_t stopped;

static void stop(int signal) { stopped = signal; }

static void *function(const char *name) {
  void *found = NULL;
  int status;
  if (lookup(name, &found, VERSION, 0, &status)) {
    fprintf(stderr, "the driver has no %s\n", name);
    exit(3);
  }
  return found;
}
static void check(const char *what, int answer) {
  if (!answer) return;
  fprintf(stderr, "%s: CUDA error %d\n", what, answer);
  exit(2);
}
/* The types of a call stand where it is made. */
#define CUDA(name, types, ...) check(#name, ((int(*) types)function(#name))(__VA_ARGS__))

static int intact(u64 memory, size_t bytes) {
  unsigned char *copy = malloc(bytes);
  int fine = 1;
  CUDA(cuMemcpyDtoH, (void *, u64, size_t), copy, memory, bytes);
  for (size_t i = 0; i < bytes; i++) fine &= copy[i] == FILLING;
  free(copy);
  return fine;
}

int main(int count, char **argument) {
  u64 steps = 0, step_us = 1000, memory_mb = 0, managed_mb = 0, host_us = 0, numbers = NUMBERS, graph = 0;
  u64 weights, state, memory = 0, managed = 0;
  struct {
    u64 step;
    double loss;
  } told = {0, 0};
  char image[128];
  void *driver, *context, *module, *kernel, *stream, *captured, *replayed, *parameters[] = {&weights, &numbers, &state};
  for (int i = 1; i < count; i++) {
    const struct {
      const char *name;
      u64 *value;
    } known[] = {{"--steps", &steps}, {"--step-us", &step_us}, {"--memory-mb", &memory_mb},
                 {"--managed-mb", &managed_mb}, {"--host-us", &host_us}, {"--graph", &graph}};
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
      if (!strcmp(argument[i], known[k].name)) *known[k].value = k == 5 ? 1 : strtoull(argument[++i], NULL, 10);
  }
  signal(SIGTERM, stop);
  driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (!driver) {
    fprintf(stderr, "%s\n", dlerror());
    return 3;
  }
  *(void **)&lookup = dlsym(driver, "cuGetProcAddress_v2");
  CUDA(cuInit, (unsigned), 0);
  CUDA(cuDevicePrimaryCtxRetain, (void **, int), &context, 0);
  CUDA(cuCtxSetCurrent, (void *), context);
  snprintf(image, sizeof image, "gpu-machine kernels\nstep descend %lu 90 45 60 35\n", step_us * 1000);
  CUDA(cuModuleLoadData, (void **, const char *), &module, image);
  CUDA(cuModuleGetFunction, (void **, void *, const char *), &kernel, module, "step");
  CUDA(cuStreamCreate, (void **, unsigned), &stream, 0);
  CUDA(cuMemAlloc, (u64 *, size_t), &weights, NUMBERS * sizeof(double));
  CUDA(cuMemAlloc, (u64 *, size_t), &state, sizeof told);
  CUDA(cuMemsetD8, (u64, unsigned char, size_t), weights, 0, NUMBERS * sizeof(double));
  CUDA(cuMemsetD8, (u64, unsigned char, size_t), state, 0, sizeof told);
  if (memory_mb) {
    CUDA(cuMemAlloc, (u64 *, size_t), &memory, memory_mb << 20);
    CUDA(cuMemsetD8, (u64, unsigned char, size_t), memory, FILLING, memory_mb << 20);
  }
  if (managed_mb) CUDA(cuMemAllocManaged, (u64 *, size_t, unsigned), &managed, managed_mb << 20, 1);
#define STEP                                                                                                          \
  CUDA(cuLaunchKernel,                                                                                                \
       (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **),      \
       kernel, 132, 1, 1, 256, 1, 1, 0, stream, parameters, NULL)
  if (graph) {
    CUDA(cuStreamBeginCapture, (void *, int), stream, 0);
    STEP;
    CUDA(cuStreamEndCapture, (void *, void **), stream, &captured);
    CUDA(cuGraphInstantiateWithFlags, (void **, void *, u64), &replayed, captured, 0);
  }
  while (!stopped && (!steps || told.step < steps)) {
    if (graph) CUDA(cuGraphLaunch, (void *, void *), replayed, stream);
    else STEP;
    CUDA(cuStreamSynchronize, (void *), stream);
    CUDA(cuMemcpyDtoH, (void *, u64, size_t), &told, state, sizeof told);
    printf("step %lu loss %.17g\n", told.step, told.loss);
    fflush(stdout);
    if (host_us) nanosleep(&(struct timespec){host_us / 1000000, (long)(host_us % 1000000) * 1000}, NULL);
  }
  if (memory_mb) puts(intact(memory, memory_mb << 20) ? "memory intact" : "memory damaged");
  puts(stopped ? "stopped" : "done");
  return 0;
}
