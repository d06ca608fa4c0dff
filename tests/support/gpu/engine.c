/* What GPUs do: kernels one after another, each context in its turn, counted in the machine's time. */
#include "machine.h"

#include <string.h>

static void note(spans_t *spans, u64 from, u64 to) {
  u32 last = (spans->next + SPANS - 1) % SPANS;
  if (spans->to[last] == from && from) {
    spans->to[last] = to;
    return;
  }
  spans->from[spans->next] = from;
  spans->to[spans->next] = to;
  spans->next = (spans->next + 1) % SPANS;
}

/* ns of it with a kernel, as far as the spans reach back. */
u64 engine_busy(const spans_t *spans, u64 from, u64 to) {
  u64 sum = 0;
  for (u32 i = 0; i < SPANS; i++) {
    u64 begin = spans->from[i] > from ? spans->from[i] : from, end = spans->to[i] < to ? spans->to[i] : to;
    if (begin < end) sum += end - begin;
  }
  return sum;
}

static timed_t *event_of(const context_t *context, const work_t *work) {
  timed_t *event = &machine->process[context->process].event[work->event];
  return event->turn == work->turn ? event : NULL; /* recorded anew meanwhile: nobody waits for the old one */
}

/* When the oldest work can begin: not before other work that it waits for. */
static u64 ready(const context_t *context) {
  const work_t *work = &context->work[context->done % DEPTH];
  const timed_t *event;
  if (work->kind != WORK_AWAIT || !(event = event_of(context, work))) return 0;
  return event->at ? event->at : NEVER;
}

static void run(engine_t *engine, context_t *context, u64 now) {
  work_t *work = &context->work[context->done % DEPTH];
  u64 slice = now - engine->at < work->ns ? now - engine->at : work->ns;
  timed_t *event;
  if (work->kind == WORK_KERNEL && slice) {
    engine->total.busy += slice;
    engine->total.sm += slice * work->sm;
    engine->total.occupancy += slice * work->occupancy;
    engine->total.tensor += slice * work->tensor;
    engine->total.dram += slice * work->dram;
    context->busy += slice;
    note(&engine->spans, engine->at, engine->at + slice);
    note(&context->spans, engine->at, engine->at + slice);
    engine->at += slice;
    work->ns -= slice;
  }
  if (work->kind == WORK_RECORD && (event = event_of(context, work))) event->at = engine->at;
  if (!work->ns) context->done++;
}

static int works(u32 i, u32 gpu, u32 number) {
  const context_t *context = &machine->context[i];
  return context->used && context->gpu == gpu && context->engine == number && !context_idle(context);
}

/* The one that has begun, else the next in turn whose work can begin by now. Where none can yet, the engine's clock moves
   to the first. */
static context_t *next(engine_t *engine, u32 gpu, u32 number, u64 now) {
  u64 first = NEVER;
  u32 chosen = CONTEXTS;
  if (engine->running && works(engine->running - 1, gpu, number)) return &machine->context[engine->running - 1];
  engine->running = 0;
  for (u32 k = 0; k < CONTEXTS && first > engine->at; k++) {
    u32 i = (engine->turn + k) % CONTEXTS;
    u64 from = works(i, gpu, number) ? ready(&machine->context[i]) : NEVER;
    if (from < engine->at) from = engine->at;
    if (from > now || from >= first) continue;
    first = from;
    chosen = i;
  }
  if (chosen == CONTEXTS) return NULL;
  engine->at = first;
  return &machine->context[chosen];
}

static int work_off(u32 gpu, u32 number, u64 now) {
  engine_t *engine = &machine->engine[gpu][number];
  context_t *context;
  int progress = 0;
  while ((context = next(engine, gpu, number, now))) {
    u32 i = (u32)(context - machine->context);
    u64 done = context->done;
    if (engine->at == now && context->work[done % DEPTH].ns) break;
    run(engine, context, now);
    progress = 1;
    engine->running = context->done == done ? i + 1 : 0;
    if (context->done != done) engine->turn = i + 1;
  }
  return progress;
}

/* Everything that GPUs do until now is done. */
void machine_settle(void) {
  u64 now = machine_now();
  int progress;
  do {
    progress = 0;
    for (u32 gpu = 0; gpu < machine->told.ngpu; gpu++)
      for (u32 number = 0; number <= INSTANCES; number++) progress |= work_off(gpu, number, now);
  } while (progress);
  for (u32 gpu = 0; gpu < machine->told.ngpu; gpu++)
    for (u32 number = 0; number <= INSTANCES; number++) machine->engine[gpu][number].at = now;
}

int context_idle(const context_t *context) { return context->done == context->queued; }

/* A moment by which something of its work is done, seen from now. */
u64 context_finish(const context_t *context) {
  const engine_t *engine = &machine->engine[context->gpu][context->engine];
  u64 soonest = NEVER;
  for (u32 i = 0; i < CONTEXTS; i++) {
    const context_t *other = &machine->context[i];
    const work_t *work = &other->work[other->done % DEPTH];
    if (!other->used || context_idle(other) || work->kind != WORK_KERNEL) continue;
    if (engine->running && other->gpu == context->gpu && other->engine == context->engine && engine->running != i + 1)
      continue;
    if (work->ns < soonest) soonest = work->ns;
  }
  return soonest == NEVER ? machine_now() + SECOND / 1000 : machine_now() + soonest;
}

/* Bytes in use on a GPU or an instance, without the driver's own. */
u64 gpu_memory(u32 gpu, u32 engine) {
  u64 sum = engine ? 0 : machine->told.gpu[gpu].mem_used;
  for (u32 i = 0; i < CONTEXTS; i++) {
    const context_t *context = &machine->context[i];
    if (context->used && context->gpu == gpu && (!engine || context->engine == engine)) sum += context->memory;
  }
  return sum;
}

u64 engine_total(u32 gpu, u32 engine) {
  const gpu_t *told = &machine->told.gpu[gpu];
  const profile_t *profile = engine ? profile_by_id(told->gi[engine - 1].profile) : NULL;
  return profile ? (u64)profile->mib << 20 : told->mem_total;
}

u64 gpu_room(u32 gpu, u32 engine) {
  u64 total = engine_total(gpu, engine), used = gpu_memory(gpu, engine);
  if (!engine) used += machine->told.gpu[gpu].mem_reserved;
  return used < total ? total - used : 0;
}
