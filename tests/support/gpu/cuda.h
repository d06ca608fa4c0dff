/* What the files of libcuda share. Everything here belongs to one process and is touched with the machine locked. */
#ifndef CUDA_H
#define CUDA_H

#include "machine.h"

enum {
  CUDA_SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101,
  INVALID_IMAGE = 200, INVALID_CONTEXT = 201, OPERATING_SYSTEM = 304, INVALID_HANDLE = 400, ILLEGAL_STATE = 401,
  NOT_FOUND = 500, NOT_READY = 600, ILLEGAL_ADDRESS = 700, NOT_SUPPORTED = 801, CAPTURE_UNSUPPORTED = 900,
  CAPTURE_UNMATCHED = 903, UNKNOWN = 999
};

typedef struct {
  u32 gpu, engine;
} device_t;

typedef struct {
  u32 number; /* in the machine's table */
  int device, retained, wrong; /* wrong: what every call answers since a kernel failed */
} ctx_t;

typedef struct block {
  u64 address, bytes, offset; /* offset: in the file that stands for this process' GPU memory */
  int managed;
  ctx_t *ctx;
  char *parked; /* its bytes while they are in the process' own memory */
  struct block *next;
} block_t;

enum { DOES_NOTHING, DOES_SPIN, DOES_DESCEND };
typedef struct {
  char name[64];
  u32 does;
  work_t cost;
} function_t;
typedef struct {
  const function_t *function;
  u64 parameter[4];
} launch_t;
typedef struct graph {
  u32 count;
  launch_t *launches;
} graph_t;
typedef struct stream {
  ctx_t *ctx;
  u64 last; /* the newest work of it, as its context counts */
  graph_t *capture;
  struct stream *next;
} stream_t;

extern int cuda_process; /* this process' number, -1 before its first context */
extern device_t cuda_devices[GPUS];
extern int cuda_device_count;
extern block_t *cuda_blocks;

/* 0, and the machine is locked; else the call's answer. Waits while this process is locked or parked. */
int cuda_begin(const char *call);
int cuda_begin_in_context(const char *call, ctx_t **ctx);
int cuda_end(int answer);
context_t *cuda_context(const ctx_t *ctx);
void cuda_gate(void);
void cuda_wait(u32 *word, u32 value, u32 ms);
void cuda_wake(u32 *word);

int cuda_initialized(void);
int cuda_start_checkpoints(void);
int cuda_lost(const ctx_t *ctx);
int cuda_done(ctx_t *ctx, u64 work); /* once this much of its work is done */
int cuda_launch(ctx_t *ctx, stream_t *stream, const launch_t *launch);
stream_t *cuda_stream(ctx_t *ctx, stream_t *named);
void cuda_no_streams(const ctx_t *ctx);

int cuda_read(u64 address, void *to, u64 bytes);
int cuda_write(u64 address, const void *from, u64 bytes);
void cuda_free_all(const ctx_t *ctx);
int cuda_park(void);
void cuda_unpark(int damaged);

#define CUDA_BEGIN()                       \
  do {                                     \
    int wrong_ = cuda_begin(__func__);     \
    if (wrong_) return wrong_;             \
  } while (0)
#define CUDA_BEGIN_IN_CONTEXT()                            \
  ctx_t *ctx;                                              \
  do {                                                     \
    int wrong_ = cuda_begin_in_context(__func__, &ctx);    \
    if (wrong_) return wrong_;                             \
  } while (0)

#endif
