/* libcuda.so.1: kernels, streams, events and graphs. A kernel does at once what it does to memory, which no program can
   see before it waits for it; its time passes on the machine's clock. */
#include "cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- kernels: a module's image is a text, one kernel a line: NAME DOES NS SM OCCUPANCY TENSOR DRAM; or it is PTX, and
   these lines are comments in it */
#define HEAD "gpu-machine kernels\n"
#define COMMENT "\n// gpu-machine: "
typedef struct {
  u32 count;
  function_t functions[];
} module_t;
static const char *const DEEDS[] = {"nothing", "spin", "descend"};
static const u32 PARAMETERS[] = {0, 1, 3};

static const char *next_kernel(const char *text, int ptx) {
  const char *next = ptx ? strstr(text, COMMENT) : strchr(text, '\n');
  return next ? next + (ptx ? strlen(COMMENT) : 1) : NULL;
}
EXPORT int cuModuleLoadData(module_t **module, const char *image) {
  u32 count = 0;
  int ptx = strncmp(image, HEAD, strlen(HEAD)) != 0;
  const char *line, *first = next_kernel(image, ptx);
  CUDA_BEGIN_IN_CONTEXT();
  (void)ctx;
  for (line = first; line && *line; line = next_kernel(line, ptx)) count++;
  if (!count) return cuda_end(INVALID_IMAGE);
  *module = calloc(1, sizeof **module + count * sizeof(function_t));
  for (line = first; line && *line; line = next_kernel(line, ptx)) {
    function_t *one = &(*module)->functions[(*module)->count];
    char does[16];
    if (!strchr(line, '\n') || sscanf(line, "%63s %15s %lu %u %u %u %u", one->name, does, &one->cost.ns, &one->cost.sm, &one->cost.occupancy,
               &one->cost.tensor, &one->cost.dram) != 7)
      return cuda_end(INVALID_IMAGE);
    while (one->does < 3 && strcmp(does, DEEDS[one->does])) one->does++;
    if (one->does == 3) return cuda_end(INVALID_IMAGE);
    (*module)->count++;
  }
  return cuda_end(CUDA_SUCCESS);
}
EXPORT int cuModuleGetFunction(const function_t **function, module_t *module, const char *name) {
  CUDA_BEGIN_IN_CONTEXT();
  (void)ctx;
  for (u32 i = 0; i < module->count; i++) {
    *function = &module->functions[i];
    if (!strcmp(name, (*function)->name)) return cuda_end(CUDA_SUCCESS);
  }
  return cuda_end(NOT_FOUND);
}
EXPORT int cuModuleUnload(module_t *module) {
  CUDA_BEGIN_IN_CONTEXT();
  (void)ctx;
  free(module);
  return cuda_end(CUDA_SUCCESS);
}

/* A step of gradient descent: `weights` with so many numbers, `state` with the step's number and its loss. */
typedef struct {
  u64 step;
  double loss;
} descent_t;
static int descend(u64 weights, u64 count, u64 state) {
  double *weight = calloc(count, sizeof *weight);
  descent_t descent;
  int wrong = cuda_read(weights, weight, count * sizeof *weight);
  if (!wrong) wrong = cuda_read(state, &descent, sizeof descent);
  if (!wrong) {
    descent.loss = 0;
    for (u64 i = 0; i < count; i++) {
      u64 mixed = (descent.step + 1) * 0x9e3779b97f4a7c15ull ^ (i * 0xbf58476d1ce4e5b9ull);
      double error = weight[i] - 1 - (double)(mixed >> 40) / (1 << 26);
      weight[i] -= 0.05 * error;
      descent.loss += error * error / (double)count;
    }
    descent.step++;
    wrong = cuda_write(weights, weight, count * sizeof *weight);
    if (!wrong) wrong = cuda_write(state, &descent, sizeof descent);
  }
  free(weight);
  return wrong;
}

/* ---- the queue of a context */
int cuda_done(ctx_t *ctx, u64 work) {
  while (cuda_context(ctx)->done < work) {
    if (cuda_lost(ctx)) return UNKNOWN;
    machine_until(context_finish(cuda_context(ctx)));
  }
  return ctx->wrong;
}
static int queued(ctx_t *ctx, stream_t *stream, work_t work) {
  context_t *context = cuda_context(ctx);
  while (context->queued - context->done == DEPTH) {
    if (cuda_lost(ctx)) return UNKNOWN;
    machine_until(context_finish(context));
    cuda_gate();
  }
  context->work[context->queued % DEPTH] = work;
  context->queued++;
  stream->last = context->queued;
  return CUDA_SUCCESS;
}
/* A program's own mistake ends its context, and the driver tells of it. */
static int failed(ctx_t *ctx) {
  declared_machine_t *told = &machine->told;
  told->xid[told->nxid % XIDS] = (xid_t){.gpu = cuda_context(ctx)->gpu, .type = 8, .data = 31, .gi = ~0u, .ci = ~0u};
  told->nxid++;
  return ctx->wrong = ILLEGAL_ADDRESS;
}
int cuda_launch(ctx_t *ctx, stream_t *stream, const launch_t *launch) {
  const function_t *function = launch->function;
  work_t work = function->cost;
  int wrong = CUDA_SUCCESS;
  work.kind = WORK_KERNEL;
  if (function->does == DOES_SPIN) work.ns = launch->parameter[0];
  if (!work.ns) work.ns = 1;
  wrong = queued(ctx, stream, work);
  if (!wrong && function->does == DOES_DESCEND)
    wrong = descend(launch->parameter[0], launch->parameter[1], launch->parameter[2]);
  return wrong == ILLEGAL_ADDRESS ? failed(ctx) : wrong;
}
static void add(graph_t *graph, const launch_t *launch) {
  graph->launches = realloc(graph->launches, (graph->count + 1) * sizeof *launch);
  graph->launches[graph->count++] = *launch;
}

/* ---- streams */
static stream_t *streams;
static stream_t defaults[GPUS * 2];
stream_t *cuda_stream(ctx_t *ctx, stream_t *named) {
  stream_t *stream = (uintptr_t)named > 2 ? named : &defaults[ctx->device];
  if (stream != named && stream->ctx != ctx) *stream = (stream_t){.ctx = ctx};
  return stream;
}
void cuda_no_streams(const ctx_t *ctx) {
  for (stream_t *stream = streams; stream; stream = stream->next)
    if (stream->ctx == ctx) stream->ctx = NULL;
  for (u32 i = 0; i < GPUS; i++)
    if (defaults[i].ctx == ctx) defaults[i].ctx = NULL;
}
EXPORT int cuStreamCreate(stream_t **stream, u32 flags) {
  (void)flags;
  CUDA_BEGIN_IN_CONTEXT();
  *stream = calloc(1, sizeof **stream);
  (*stream)->ctx = ctx;
  (*stream)->next = streams;
  streams = *stream;
  return cuda_end(CUDA_SUCCESS);
}
EXPORT int cuStreamCreateWithPriority(stream_t **stream, u32 flags, int priority) {
  (void)priority;
  return cuStreamCreate(stream, flags);
}
EXPORT int cuStreamDestroy_v2(stream_t *stream) {
  stream_t **link = &streams;
  CUDA_BEGIN_IN_CONTEXT();
  (void)ctx;
  while (*link && *link != stream) link = &(*link)->next;
  if (!*link) return cuda_end(INVALID_HANDLE);
  *link = stream->next;
  free(stream);
  return cuda_end(CUDA_SUCCESS);
}
EXPORT int cuStreamSynchronize(stream_t *stream) {
  CUDA_BEGIN_IN_CONTEXT();
  stream = cuda_stream(ctx, stream);
  if (!stream->ctx) return cuda_end(INVALID_HANDLE);
  return cuda_end(stream->capture ? CAPTURE_UNSUPPORTED : cuda_done(stream->ctx, stream->last));
}
EXPORT int cuStreamQuery(stream_t *stream) {
  CUDA_BEGIN_IN_CONTEXT();
  stream = cuda_stream(ctx, stream);
  if (!stream->ctx) return cuda_end(INVALID_HANDLE);
  if (stream->capture) return cuda_end(CAPTURE_UNSUPPORTED);
  return cuda_end(cuda_context(stream->ctx)->done >= stream->last ? CUDA_SUCCESS : NOT_READY);
}

/* ---- launches */
static int launched(ctx_t *ctx, stream_t *stream, const function_t *function, const u32 size[6], void **parameters) {
  launch_t launch = {.function = function};
  for (u32 i = 0; i < 6; i++)
    if (!size[i]) return INVALID_VALUE;
  if ((u64)size[3] * size[4] * size[5] > 1024) return INVALID_VALUE;
  for (u32 i = 0; i < PARAMETERS[function->does]; i++) memcpy(&launch.parameter[i], parameters[i], sizeof(u64));
  stream = cuda_stream(ctx, stream);
  if (!stream->capture) return cuda_launch(ctx, stream, &launch);
  add(stream->capture, &launch);
  return CUDA_SUCCESS;
}
EXPORT int cuLaunchKernel(const function_t *function, u32 a, u32 b, u32 c, u32 d, u32 e, u32 f, u32 shared,
                          stream_t *stream, void **parameters, void **extra) {
  (void)shared, (void)extra;
  CUDA_BEGIN_IN_CONTEXT();
  return cuda_end(launched(ctx, stream, function, (u32[]){a, b, c, d, e, f}, parameters));
}
EXPORT int cuLaunchCooperativeKernel(const function_t *function, u32 a, u32 b, u32 c, u32 d, u32 e, u32 f, u32 shared,
                                     stream_t *stream, void **parameters) {
  (void)shared;
  CUDA_BEGIN_IN_CONTEXT();
  return cuda_end(launched(ctx, stream, function, (u32[]){a, b, c, d, e, f}, parameters));
}
typedef struct {
  u32 size[6], shared;
  stream_t *stream;
} config_t;
EXPORT int cuLaunchKernelEx(const config_t *config, const function_t *function, void **parameters, void **extra) {
  (void)extra;
  CUDA_BEGIN_IN_CONTEXT();
  return cuda_end(launched(ctx, config->stream, function, config->size, parameters));
}

/* ---- events */
typedef struct {
  u32 number, recorded;
  u64 turn;
  graph_t *capture;
} event_t;
static u32 numbers[TIMED]; /* which are given out */
static timed_t *time_of(const event_t *event) { return &machine->process[cuda_process].event[event->number]; }

EXPORT int cuEventCreate(event_t **event, u32 flags) {
  u32 number = 0;
  (void)flags;
  CUDA_BEGIN_IN_CONTEXT();
  (void)ctx;
  while (number < TIMED && numbers[number]) number++;
  if (number == TIMED) return cuda_end(OUT_OF_MEMORY);
  numbers[number] = 1;
  *event = calloc(1, sizeof **event);
  (*event)->number = number;
  (*event)->turn = time_of(*event)->turn;
  return cuda_end(CUDA_SUCCESS);
}
EXPORT int cuEventDestroy_v2(event_t *event) {
  CUDA_BEGIN_IN_CONTEXT();
  (void)ctx;
  time_of(event)->turn++;
  numbers[event->number] = 0;
  free(event);
  return cuda_end(CUDA_SUCCESS);
}
EXPORT int cuEventRecord(event_t *event, stream_t *stream) {
  CUDA_BEGIN_IN_CONTEXT();
  stream = cuda_stream(ctx, stream);
  if ((event->capture = stream->capture)) return cuda_end(CUDA_SUCCESS);
  event->turn = ++time_of(event)->turn;
  time_of(event)->at = 0;
  event->recorded = 1;
  return cuda_end(queued(ctx, stream, (work_t){.kind = WORK_RECORD, .event = event->number, .turn = event->turn}));
}
static int happened(const event_t *event) { return !event->recorded || time_of(event)->at; }
EXPORT int cuEventQuery(event_t *event) {
  CUDA_BEGIN_IN_CONTEXT();
  (void)ctx;
  machine_settle();
  return cuda_end(happened(event) ? CUDA_SUCCESS : NOT_READY);
}
EXPORT int cuEventSynchronize(event_t *event) {
  CUDA_BEGIN_IN_CONTEXT();
  machine_settle();
  while (!happened(event)) {
    if (cuda_lost(ctx)) return cuda_end(UNKNOWN);
    machine_until(context_finish(cuda_context(ctx)));
  }
  return cuda_end(CUDA_SUCCESS);
}
EXPORT int cuEventElapsedTime(float *ms, event_t *from, event_t *to) {
  CUDA_BEGIN_IN_CONTEXT();
  (void)ctx;
  machine_settle();
  if (!from->recorded || !to->recorded) return cuda_end(INVALID_HANDLE);
  if (!happened(from) || !happened(to)) return cuda_end(NOT_READY);
  *ms = (float)((double)(int64_t)(time_of(to)->at - time_of(from)->at) / 1e6);
  return cuda_end(CUDA_SUCCESS);
}
/* In a capture, the stream that waits joins it. */
EXPORT int cuStreamWaitEvent(stream_t *stream, event_t *event, u32 flags) {
  (void)flags;
  CUDA_BEGIN_IN_CONTEXT();
  stream = cuda_stream(ctx, stream);
  if (event->capture) stream->capture = event->capture;
  if (event->capture || !event->recorded) return cuda_end(CUDA_SUCCESS);
  return cuda_end(queued(ctx, stream, (work_t){.kind = WORK_AWAIT, .event = event->number, .turn = event->turn}));
}

/* ---- graphs */
EXPORT int cuStreamBeginCapture_v2(stream_t *stream, u32 mode) {
  (void)mode;
  CUDA_BEGIN_IN_CONTEXT();
  if ((uintptr_t)stream <= 2) return cuda_end(CAPTURE_UNSUPPORTED);
  if (stream->capture) return cuda_end(ILLEGAL_STATE);
  stream->capture = calloc(1, sizeof(graph_t));
  (void)ctx;
  return cuda_end(CUDA_SUCCESS);
}
EXPORT int cuStreamIsCapturing(stream_t *stream, u32 *status) {
  CUDA_BEGIN_IN_CONTEXT();
  *status = cuda_stream(ctx, stream)->capture != NULL;
  return cuda_end(CUDA_SUCCESS);
}
EXPORT int cuStreamEndCapture(stream_t *stream, graph_t **graph) {
  CUDA_BEGIN_IN_CONTEXT();
  *graph = cuda_stream(ctx, stream)->capture;
  if (!*graph) return cuda_end(CAPTURE_UNMATCHED);
  for (stream_t *one = streams; one; one = one->next)
    if (one->capture == *graph) one->capture = NULL;
  return cuda_end(CUDA_SUCCESS);
}
EXPORT int cuGraphGetNodes(graph_t *graph, void **nodes, size_t *count) {
  CUDA_BEGIN_IN_CONTEXT();
  (void)ctx;
  for (size_t i = 0; nodes && i < *count && i < graph->count; i++) nodes[i] = &graph->launches[i];
  if (!nodes || *count > graph->count) *count = graph->count;
  return cuda_end(CUDA_SUCCESS);
}
EXPORT int cuGraphInstantiateWithFlags(graph_t **made, graph_t *graph, u64 flags) {
  (void)flags;
  CUDA_BEGIN_IN_CONTEXT();
  (void)ctx;
  *made = calloc(1, sizeof **made);
  for (u32 i = 0; i < graph->count; i++) add(*made, &graph->launches[i]);
  return cuda_end(CUDA_SUCCESS);
}
EXPORT int cuGraphLaunch(graph_t *graph, stream_t *stream) {
  int wrong = CUDA_SUCCESS;
  CUDA_BEGIN_IN_CONTEXT();
  stream = cuda_stream(ctx, stream);
  if (stream->capture) return cuda_end(CAPTURE_UNSUPPORTED);
  for (u32 i = 0; i < graph->count && !wrong; i++) wrong = cuda_launch(ctx, stream, &graph->launches[i]);
  return cuda_end(wrong);
}
static int dropped(graph_t *graph) {
  CUDA_BEGIN();
  free(graph->launches);
  free(graph);
  return cuda_end(CUDA_SUCCESS);
}
EXPORT int cuGraphDestroy(graph_t *graph) { return dropped(graph); }
EXPORT int cuGraphExecDestroy(graph_t *graph) { return dropped(graph); }
