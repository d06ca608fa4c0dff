/* libcuda.so.1: memory. A file without a name stands for what this process has on its GPUs; addresses are reserved and
   cannot be read by the program, as on a real GPU. */
#define _GNU_SOURCE
#include "cuda.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define UNIT 512
#define PIECE (1u << 20)

block_t *cuda_blocks;
static int file = -1;
static u64 length;

static int opened(void) {
  char path[512];
  if (file >= 0) return 0;
  snprintf(path, sizeof path, "%s/memory-XXXXXX", machine_folder());
  if ((file = mkostemp(path, O_CLOEXEC)) < 0) return -1;
  return unlink(path);
}

static block_t *block_at(u64 address, u64 bytes) {
  for (block_t *block = cuda_blocks; block; block = block->next)
    if (block->address <= address && address + bytes <= block->address + block->bytes) return block;
  return NULL;
}

/* 0, or ILLEGAL_ADDRESS. */
static int moved(u64 address, char *memory, u64 bytes, int write) {
  const block_t *block = block_at(address, bytes);
  if (!block) return ILLEGAL_ADDRESS;
  if (block->managed) {
    memcpy(write ? (void *)address : memory, write ? memory : (void *)address, bytes);
    return CUDA_SUCCESS;
  }
  for (u64 at = 0; at < bytes;) {
    off_t place = (off_t)(block->offset + (address - block->address) + at);
    ssize_t done = write ? pwrite(file, memory + at, bytes - at, place) : pread(file, memory + at, bytes - at, place);
    if (done <= 0) return OUT_OF_MEMORY; /* of the disk that holds it */
    at += (u64)done;
  }
  return CUDA_SUCCESS;
}
int cuda_read(u64 address, void *to, u64 bytes) { return moved(address, to, bytes, 0); }
int cuda_write(u64 address, const void *from, u64 bytes) { return moved(address, (char *)(uintptr_t)from, bytes, 1); }

static int allocated(ctx_t *ctx, u64 bytes, int managed, u64 *address) {
  context_t *context = cuda_context(ctx);
  u64 whole = (bytes + UNIT - 1) / UNIT * UNIT;
  int access = managed ? PROT_READ | PROT_WRITE : PROT_NONE;
  block_t *block;
  void *reserved;
  if (!bytes) return INVALID_VALUE;
  if (whole < bytes || gpu_room(context->gpu, context->engine) < whole || opened()) return OUT_OF_MEMORY;
  reserved = mmap(NULL, whole, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return OUT_OF_MEMORY;
  block = malloc(sizeof *block);
  *block = (block_t){(uintptr_t)reserved, whole, length, managed, ctx, NULL, cuda_blocks};
  if (!managed && ftruncate(file, (off_t)(length += whole))) return OUT_OF_MEMORY;
  cuda_blocks = block;
  context->memory += whole;
  if (managed) context->managed += whole;
  *address = block->address;
  return CUDA_SUCCESS;
}

static void freed(block_t **link) {
  block_t *block = *link;
  context_t *context = cuda_context(block->ctx);
  context->memory -= block->bytes;
  if (block->managed) context->managed -= block->bytes;
  else fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)block->offset, (off_t)block->bytes);
  munmap((void *)block->address, block->bytes);
  *link = block->next;
  free(block);
}
void cuda_free_all(const ctx_t *ctx) {
  for (block_t **link = &cuda_blocks; *link;)
    if ((*link)->ctx == ctx) freed(link);
    else link = &(*link)->next;
}

EXPORT int cuMemAlloc_v2(u64 *address, size_t bytes) {
  CUDA_BEGIN_IN_CONTEXT();
  return cuda_end(allocated(ctx, bytes, 0, address));
}
EXPORT int cuMemAllocPitch_v2(u64 *address, size_t *pitch, size_t width, size_t height, u32 element) {
  (void)element;
  CUDA_BEGIN_IN_CONTEXT();
  *pitch = (width + UNIT - 1) / UNIT * UNIT;
  return cuda_end(allocated(ctx, *pitch * height, 0, address));
}
EXPORT int cuMemAllocManaged(u64 *address, size_t bytes, u32 flags) {
  (void)flags;
  CUDA_BEGIN_IN_CONTEXT();
  return cuda_end(allocated(ctx, bytes, 1, address));
}
EXPORT int cuMemAllocAsync(u64 *address, size_t bytes, stream_t *stream) {
  (void)stream;
  CUDA_BEGIN_IN_CONTEXT();
  return cuda_end(allocated(ctx, bytes, 0, address));
}
/* What a kernel may still use is waited for. */
static int freed_at(ctx_t *ctx, u64 address) {
  int wrong = cuda_done(ctx, cuda_context(ctx)->queued);
  for (block_t **link = &cuda_blocks; !wrong && *link; link = &(*link)->next) {
    if ((*link)->address != address) continue;
    freed(link);
    return CUDA_SUCCESS;
  }
  return wrong || !address ? wrong : INVALID_VALUE;
}
EXPORT int cuMemFree_v2(u64 address) {
  CUDA_BEGIN_IN_CONTEXT();
  return cuda_end(freed_at(ctx, address));
}
EXPORT int cuMemFreeAsync(u64 address, stream_t *stream) {
  (void)stream;
  CUDA_BEGIN_IN_CONTEXT();
  return cuda_end(freed_at(ctx, address));
}
EXPORT int cuMemAllocHost_v2(void **memory, size_t bytes) {
  CUDA_BEGIN_IN_CONTEXT();
  (void)ctx;
  return cuda_end(posix_memalign(memory, 4096, bytes) ? OUT_OF_MEMORY : CUDA_SUCCESS);
}
EXPORT int cuMemFreeHost(void *memory) {
  CUDA_BEGIN_IN_CONTEXT();
  (void)ctx;
  free(memory);
  return cuda_end(CUDA_SUCCESS);
}
EXPORT int cuMemGetInfo_v2(size_t *room, size_t *total) {
  CUDA_BEGIN_IN_CONTEXT();
  *room = gpu_room(cuda_context(ctx)->gpu, cuda_context(ctx)->engine);
  *total = engine_total(cuda_context(ctx)->gpu, cuda_context(ctx)->engine);
  return cuda_end(CUDA_SUCCESS);
}

/* ---- copies: those without a stream come after all work of the context */
static int copied(u64 to, u64 from, u64 bytes) {
  char *piece = malloc(PIECE);
  int to_gpu = block_at(to, bytes) != NULL, from_gpu = block_at(from, bytes) != NULL, wrong = CUDA_SUCCESS;
  for (u64 at = 0; at < bytes && !wrong; at += PIECE) {
    u64 part = bytes - at < PIECE ? bytes - at : PIECE;
    if (from_gpu) wrong = cuda_read(from + at, piece, part);
    else memcpy(piece, (void *)(from + at), part);
    if (wrong) break;
    if (to_gpu) wrong = cuda_write(to + at, piece, part);
    else memcpy((void *)(to + at), piece, part);
  }
  free(piece);
  return wrong;
}
static int copied_after(ctx_t *ctx, u64 to, u64 from, u64 bytes) {
  int wrong = cuda_done(ctx, cuda_context(ctx)->queued);
  return wrong ? wrong : copied(to, from, bytes);
}
static int copied_in(ctx_t *ctx, stream_t *stream, u64 to, u64 from, u64 bytes) {
  return cuda_stream(ctx, stream)->capture ? CAPTURE_UNSUPPORTED : copied(to, from, bytes);
}
EXPORT int cuMemcpy(u64 to, u64 from, size_t bytes) {
  CUDA_BEGIN_IN_CONTEXT();
  return cuda_end(copied_after(ctx, to, from, bytes));
}
EXPORT int cuMemcpyHtoD_v2(u64 to, const void *from, size_t bytes) {
  CUDA_BEGIN_IN_CONTEXT();
  if (!block_at(to, bytes)) return cuda_end(INVALID_VALUE);
  return cuda_end(copied_after(ctx, to, (uintptr_t)from, bytes));
}
EXPORT int cuMemcpyDtoH_v2(void *to, u64 from, size_t bytes) {
  CUDA_BEGIN_IN_CONTEXT();
  if (!block_at(from, bytes)) return cuda_end(INVALID_VALUE);
  return cuda_end(copied_after(ctx, (uintptr_t)to, from, bytes));
}
EXPORT int cuMemcpyDtoD_v2(u64 to, u64 from, size_t bytes) {
  CUDA_BEGIN_IN_CONTEXT();
  if (!block_at(from, bytes) || !block_at(to, bytes)) return cuda_end(INVALID_VALUE);
  return cuda_end(copied_after(ctx, to, from, bytes));
}
EXPORT int cuMemcpyHtoDAsync_v2(u64 to, const void *from, size_t bytes, stream_t *stream) {
  CUDA_BEGIN_IN_CONTEXT();
  return cuda_end(copied_in(ctx, stream, to, (uintptr_t)from, bytes));
}
EXPORT int cuMemcpyDtoHAsync_v2(void *to, u64 from, size_t bytes, stream_t *stream) {
  CUDA_BEGIN_IN_CONTEXT();
  return cuda_end(copied_in(ctx, stream, (uintptr_t)to, from, bytes));
}
static int filled(u64 address, u32 value, u32 width, u64 count) {
  u64 bytes = count * width;
  char *piece;
  int wrong = CUDA_SUCCESS;
  if (!block_at(address, bytes)) return INVALID_VALUE;
  piece = malloc(PIECE);
  for (u64 i = 0; i < PIECE; i += width) memcpy(piece + i, &value, width);
  for (u64 at = 0; at < bytes && !wrong; at += PIECE)
    wrong = cuda_write(address + at, piece, bytes - at < PIECE ? bytes - at : PIECE);
  free(piece);
  return wrong;
}
EXPORT int cuMemsetD8_v2(u64 address, unsigned char value, size_t count) {
  CUDA_BEGIN_IN_CONTEXT();
  (void)ctx;
  return cuda_end(filled(address, value, 1, count));
}
EXPORT int cuMemsetD32_v2(u64 address, u32 value, size_t count) {
  CUDA_BEGIN_IN_CONTEXT();
  (void)ctx;
  return cuda_end(filled(address, value, 4, count));
}

/* ---- parking: all bytes go into the process' own memory, and back */
int cuda_park(void) {
  for (block_t *block = cuda_blocks; block; block = block->next) {
    block->parked = mmap(NULL, block->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block->parked == MAP_FAILED || cuda_read(block->address, block->parked, block->bytes)) {
      for (block_t *done = cuda_blocks; done != block; done = done->next) munmap(done->parked, done->bytes);
      return OUT_OF_MEMORY;
    }
  }
  return file < 0 || !ftruncate(file, 0) ? CUDA_SUCCESS : OPERATING_SYSTEM;
}
void cuda_unpark(int damaged) {
  if (file >= 0 && ftruncate(file, (off_t)length)) abort();
  for (block_t *block = cuda_blocks; block; block = block->next) {
    if (damaged) block->parked[block->bytes / 2 + 7] ^= (char)0x80; /* the sign of a number */
    if (cuda_write(block->address, block->parked, block->bytes)) abort();
    munmap(block->parked, block->bytes);
    block->parked = NULL;
  }
}
