/* Test double of libnvidia-ml.so.1: state lives in a file that is mmapped MAP_SHARED, so several
   processes (Celery workers, the test itself) see one machine. FAKE_NVML_STATE names the file. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>
typedef unsigned int u32; typedef unsigned long long u64;
enum { OK=0, UNINIT=1, INVAL=2, NOTSUP=3, NOPERM=4, NOTFOUND=6, SMALL=7, NODRV=9, TIMEOUT=10, LOST=15, INUSE=19, NORES=23 };
#define MAXG 16
#define MAXI 8
#define MAXP 8
#define MAXE 32
typedef struct { u32 used, id, profile, start, size, cprofile, ci_used, ci_id; char uuid[64]; } gi_t;
typedef struct { char uuid[64], name[96], bus[32]; u64 mem_total, mem_used, energy, clock_reasons, ecc_uncorr, ecc_corr;
  u32 gpu_util, mem_util, temp, power, lost, mig, minor, remap[4], recovery, nvlinks_up, ecc_on;
  u32 nproc; struct { u32 pid, pad; u64 used; u32 gi, ci; } proc[MAXP]; gi_t gi[MAXI]; } gpu_t;
typedef struct { u32 magic, ngpu, driver_missing, nev; char driver[32]; int cuda;
  struct { u32 gpu, taken; u64 type, data; u32 gi, ci; } ev[MAXE]; u64 limits_api; gpu_t gpu[MAXG]; } state_t;
static state_t *S; static int fd = -1;
int nvmlInitWithFlags(u32 f) { const char *p = getenv("FAKE_NVML_STATE"); if (S) return OK;
  if (!p || (fd = open(p, O_RDWR)) < 0) return NODRV;
  S = mmap(0, sizeof *S, PROT_READ|PROT_WRITE, MAP_SHARED, fd, 0); if (S == MAP_FAILED) { S = 0; return NODRV; }
  if (S->magic != 0x4e564d4c || S->driver_missing) { S = 0; return NODRV; } return OK; }
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return S ? OK : UNINIT; }
const char *nvmlErrorString(int r) { static char b[32]; snprintf(b, sizeof b, "fake NVML error %d", r); return b; }
static int str(char *o, u32 n, const char *s) { if (strlen(s) + 1 > n) return SMALL; strcpy(o, s); return OK; }
int nvmlSystemGetDriverVersion(char *v, u32 n) { return S ? str(v, n, S->driver) : UNINIT; }
int nvmlSystemGetNVMLVersion(char *v, u32 n) { return S ? str(v, n, S->driver) : UNINIT; }
int nvmlSystemGetCudaDriverVersion(int *v) { *v = S->cuda; return OK; }
int nvmlDeviceGetCount_v2(u32 *n) { if (!S) return UNINIT; *n = S->ngpu; return OK; }
/* handles: gpu = 1+g ; MIG device = 0x100 + g*MAXI+i ; instances likewise with other bases */
#define G(h) (&S->gpu[(uintptr_t)(h) - 1])
#define ISMIG(h) ((uintptr_t)(h) >= 0x100)
#define MG(h) (((uintptr_t)(h) - 0x100) / MAXI)
#define MI(h) (((uintptr_t)(h) - 0x100) % MAXI)
static gpu_t *dev(void *h) { return ISMIG(h) ? &S->gpu[MG(h)] : G(h); }
static gi_t *inst(void *h) { return &S->gpu[MG(h)].gi[MI(h)]; }
#define CHECK(h) do { if (!S) return UNINIT; if (!h) return INVAL; if (dev(h)->lost) return LOST; } while (0)
int nvmlDeviceGetHandleByIndex_v2(u32 i, void **h) { if (!S) return UNINIT; if (i >= S->ngpu) return INVAL; if (S->gpu[i].lost) return LOST; *h = (void *)(uintptr_t)(i + 1); return OK; }
int nvmlDeviceGetHandleByUUID(const char *u, void **h) { for (u32 g = 0; g < S->ngpu; g++) {
    if (!strcmp(u, S->gpu[g].uuid)) { *h = (void *)(uintptr_t)(g + 1); return S->gpu[g].lost ? LOST : OK; }
    for (u32 i = 0; i < MAXI; i++) if (S->gpu[g].gi[i].ci_used && !strcmp(u, S->gpu[g].gi[i].uuid)) { *h = (void *)(uintptr_t)(0x100 + g*MAXI + i); return OK; } }
  return NOTFOUND; }
int nvmlDeviceGetIndex(void *h, u32 *i) { CHECK(h); *i = (u32)(dev(h) - S->gpu); return OK; }
int nvmlDeviceGetMinorNumber(void *h, u32 *i) { CHECK(h); *i = dev(h)->minor; return OK; }
int nvmlDeviceGetUUID(void *h, char *b, u32 n) { CHECK(h); return str(b, n, ISMIG(h) ? inst(h)->uuid : dev(h)->uuid); }
int nvmlDeviceGetName(void *h, char *b, u32 n) { CHECK(h); return str(b, n, dev(h)->name); }
int nvmlDeviceGetMemoryInfo(void *h, u64 *m) { CHECK(h); gpu_t *g = dev(h); m[0] = g->mem_total; m[1] = g->mem_total - g->mem_used; m[2] = g->mem_used; return OK; }
int nvmlDeviceGetUtilizationRates(void *h, u32 *u) { CHECK(h); if (ISMIG(h) || dev(h)->mig) return NOTSUP; u[0] = dev(h)->gpu_util; u[1] = dev(h)->mem_util; return OK; }
int nvmlDeviceGetTemperature(void *h, u32 s, u32 *t) { CHECK(h); *t = dev(h)->temp; return OK; }
int nvmlDeviceGetTemperatureV(void *h, u32 *t) { CHECK(h); t[2] = dev(h)->temp; return OK; }
int nvmlDeviceGetPowerUsage(void *h, u32 *p) { CHECK(h); *p = dev(h)->power; return OK; }
int nvmlDeviceGetTotalEnergyConsumption(void *h, u64 *e) { CHECK(h); *e = dev(h)->energy; return OK; }
int nvmlDeviceGetEccMode(void *h, u32 *c, u32 *p) { CHECK(h); *c = *p = dev(h)->ecc_on; return OK; }
int nvmlDeviceGetTotalEccErrors(void *h, u32 type, u32 ctr, u64 *n) { CHECK(h); *n = type ? dev(h)->ecc_uncorr : dev(h)->ecc_corr; return OK; }
int nvmlDeviceGetRemappedRows(void *h, u32 *a, u32 *b, u32 *c, u32 *d) { CHECK(h); if (dev(h)->mig) return NOTSUP; u32 *r = dev(h)->remap; *a = r[0]; *b = r[1]; *c = r[2]; *d = r[3]; return OK; }
int nvmlDeviceGetCurrentClocksEventReasons(void *h, u64 *r) { CHECK(h); *r = dev(h)->clock_reasons; return OK; }
int nvmlDeviceGetNvLinkState(void *h, u32 l, u32 *up) { CHECK(h); if (!dev(h)->nvlinks_up) return NOTSUP; if (l >= 18) return INVAL; *up = l < dev(h)->nvlinks_up; return OK; }
int nvmlDeviceGetTopologyCommonAncestor(void *a, void *b, u32 *l) { CHECK(a); CHECK(b); *l = a == b ? 0 : 40; return OK; }
typedef struct { char legacy[16]; u32 domain, bus, device, id, sub; char busId[32]; } pci_t;
int nvmlDeviceGetPciInfo_v3(void *h, pci_t *p) { CHECK(h); memset(p, 0, sizeof *p); strcpy(p->busId, dev(h)->bus); p->id = 0x233510de; return OK; }
typedef struct { u32 pid; u64 used; u32 gi, ci; } proc_t;
int nvmlDeviceGetComputeRunningProcesses_v3(void *h, u32 *n, proc_t *o) { CHECK(h); gpu_t *g = dev(h); if (*n < g->nproc) { *n = g->nproc; return SMALL; }
  for (u32 i = 0; i < g->nproc; i++) { o[i].pid = g->proc[i].pid; o[i].used = g->proc[i].used; o[i].gi = g->proc[i].gi; o[i].ci = g->proc[i].ci; } *n = g->nproc; return OK; }
typedef struct { u32 field, scope; int64_t ts, lat; u32 type, ret; u64 v; } fv_t;
int nvmlDeviceGetFieldValues(void *h, int n, fv_t *f) { CHECK(h); gpu_t *g = dev(h); for (int i = 0; i < n; i++) { f[i].ret = OK; f[i].type = 3; switch (f[i].field) {
    case 82: f[i].type = 1; f[i].v = g->temp + 8; break; case 83: f[i].v = g->energy; break; case 143: f[i].v = g->remap[1]; break; case 144: f[i].v = g->remap[2]; break;
    case 145: f[i].v = g->remap[3]; break; case 230: f[i].type = 1; f[i].v = g->recovery; break; default: f[i].ret = NOTSUP; } } return OK; }
/* events */
typedef struct { void *dev; u64 type, data; u32 gi, ci; } evd_t;
static u64 mask[MAXG];
int nvmlEventSetCreate(void **s) { memset(mask, 0, sizeof mask); *s = (void *)0x7; return S ? OK : UNINIT; }
int nvmlEventSetFree(void *s) { return OK; }
int nvmlDeviceGetSupportedEventTypes(void *h, u64 *t) { CHECK(h); *t = 0xff9f; return OK; }
int nvmlDeviceRegisterEvents(void *h, u64 t, void *s) { CHECK(h); mask[dev(h) - S->gpu] |= t; return OK; }
int nvmlEventSetWait_v2(void *s, evd_t *e, u32 ms) { for (u32 waited = 0;; waited += 5) {
    flock(fd, LOCK_EX); for (u32 i = 0; i < S->nev && i < MAXE; i++) if (!S->ev[i].taken && (mask[S->ev[i].gpu] & S->ev[i].type)) { S->ev[i].taken = 1;
      e->dev = (void *)(uintptr_t)(S->ev[i].gpu + 1); e->type = S->ev[i].type; e->data = S->ev[i].data; e->gi = S->ev[i].gi; e->ci = S->ev[i].ci; flock(fd, LOCK_UN); return OK; }
    flock(fd, LOCK_UN); if (waited >= ms) return TIMEOUT; usleep(5000); } }
/* MIG: H200 geometry. NVML profile enum -> driver profile id, slices, memory slices, SMs, MB, placements */
static const struct { u32 en, id, sl, msl, sm, mb, max; int at[8]; const char *n; } P[] = {
  {0,19,1,1,16,16384,7,{0,1,2,3,4,5,6,-1},"MIG 1g.18gb"}, {7,20,1,1,16,16384,1,{0,1,2,3,4,5,6,-1},"MIG 1g.18gb+me"}, {9,15,1,2,26,33280,4,{0,2,4,6,-1},"MIG 1g.35gb"},
  {1,14,2,2,32,33280,3,{0,2,4,-1},"MIG 2g.35gb"}, {2,9,3,4,60,71168,2,{0,4,-1},"MIG 3g.71gb"}, {3,5,4,4,64,71168,1,{0,-1},"MIG 4g.71gb"}, {4,0,7,8,132,143616,1,{0,-1},"MIG 7g.141gb"} };
#define NP ((int)(sizeof P / sizeof *P))
static int pid(u32 id) { for (int i = 0; i < NP; i++) if (P[i].id == id) return i; return -1; }
typedef struct { u32 version, id, p2p, sl, max, sm, ce, dec, enc, jpeg, ofa; u64 mb; char name[96]; } gip_t;
int nvmlDeviceGetGpuInstanceProfileInfoV(void *h, u32 en, gip_t *o) { CHECK(h); for (int i = 0; i < NP; i++) if (P[i].en == en) { u32 v = o->version; memset(o, 0, sizeof *o); o->version = v; o->id = P[i].id;
    o->p2p = 1; o->sl = P[i].sl; o->max = P[i].max; o->sm = P[i].sm; o->mb = P[i].mb; strcpy(o->name, P[i].n); return OK; } return NOTSUP; }
typedef struct { u32 start, size; } pl_t;
int nvmlDeviceGetGpuInstancePossiblePlacements_v2(void *h, u32 id, pl_t *o, u32 *n) { CHECK(h); int p = pid(id), k = 0; if (p < 0) return NOTSUP; while (P[p].at[k] >= 0) k++;
  if (o) for (int i = 0; i < k; i++) { o[i].start = P[p].at[i]; o[i].size = P[p].msl; } *n = k; return OK; }
int nvmlDeviceGetMigMode(void *h, u32 *c, u32 *p) { CHECK(h); *c = *p = dev(h)->mig; return OK; }
int nvmlDeviceSetMigMode(void *h, u32 m, u32 *act) { CHECK(h); if (dev(h)->nproc) { *act = INUSE; return OK; } for (int i = 0; i < MAXI; i++) if (dev(h)->gi[i].used) { *act = INUSE; return OK; } dev(h)->mig = m; *act = OK; return OK; }
static int place(gpu_t *g, int p, int at) { for (int i = 0; i < MAXI; i++) if (g->gi[i].used && at < (int)(g->gi[i].start + g->gi[i].size) && (int)g->gi[i].start < at + (int)P[p].msl) return 0; return 1; }
static int mk(void *h, u32 id, int want, void **o) { CHECK(h); gpu_t *g = dev(h); int p = pid(id), at = -1, k = -1; u32 cnt = 0; if (!g->mig) return NOTSUP; if (p < 0) return NOTSUP;
  flock(fd, LOCK_EX); for (int i = 0; i < MAXI; i++) { if (!g->gi[i].used && k < 0) k = i; if (g->gi[i].used && g->gi[i].profile == id) cnt++; }
  for (int i = 0; P[p].at[i] >= 0; i++) if ((want < 0 || want == P[p].at[i]) && place(g, p, P[p].at[i])) { at = P[p].at[i]; break; }
  if (at < 0 || k < 0 || cnt >= P[p].max) { flock(fd, LOCK_UN); return NORES; }
  gi_t *x = &g->gi[k]; memset(x, 0, sizeof *x); x->used = 1; x->id = k + 1; x->profile = id; x->start = at; x->size = P[p].msl; flock(fd, LOCK_UN); *o = (void *)(uintptr_t)(0x100 + (g - S->gpu)*MAXI + k); return OK; }
int nvmlDeviceCreateGpuInstance(void *h, u32 id, void **o) { return mk(h, id, -1, o); }
int nvmlDeviceCreateGpuInstanceWithPlacement(void *h, u32 id, const pl_t *w, void **o) { return mk(h, id, (int)w->start, o); }
int nvmlDeviceGetGpuInstanceRemainingCapacity(void *h, u32 id, u32 *n) { CHECK(h); int p = pid(id); if (p < 0) return NOTSUP; *n = 0; for (int i = 0; P[p].at[i] >= 0; i++) *n += place(dev(h), p, P[p].at[i]); return OK; }
int nvmlDeviceGetGpuInstances(void *h, u32 id, void **o, u32 *n) { CHECK(h); *n = 0; for (int i = 0; i < MAXI; i++) if (dev(h)->gi[i].used && dev(h)->gi[i].profile == id) o[(*n)++] = (void *)(uintptr_t)(0x100 + (dev(h) - S->gpu)*MAXI + i); return OK; }
int nvmlDeviceGetGpuInstanceById(void *h, u32 id, void **o) { CHECK(h); for (int i = 0; i < MAXI; i++) if (dev(h)->gi[i].used && dev(h)->gi[i].id == id) { *o = (void *)(uintptr_t)(0x100 + (dev(h) - S->gpu)*MAXI + i); return OK; } return NOTFOUND; }
typedef struct { void *dev; u32 id, profile; pl_t pl; } gii_t;
int nvmlGpuInstanceGetInfo(void *gi, gii_t *o) { gi_t *x = inst(gi); if (!x->used) return NOTFOUND; o->dev = (void *)(uintptr_t)(MG(gi) + 1); o->id = x->id; o->profile = x->profile; o->pl.start = x->start; o->pl.size = x->size; return OK; }
int nvmlGpuInstanceDestroy(void *gi) { gi_t *x = inst(gi); if (!x->used) return NOTFOUND; if (x->ci_used) return INUSE; x->used = 0; return OK; }
typedef struct { u32 version, id, sl, max, sm, ce, dec, enc, jpeg, ofa; char name[96]; } cip_t;
int nvmlGpuInstanceGetComputeInstanceProfileInfoV(void *gi, u32 en, u32 eng, cip_t *o) { int p = pid(inst(gi)->profile); if (p < 0 || en != P[p].en % 7) return NOTSUP; u32 v = o->version; memset(o, 0, sizeof *o); o->version = v; o->id = en; o->sl = P[p].sl; o->max = 1; o->sm = P[p].sm; strcpy(o->name, P[p].n); return OK; }
int nvmlGpuInstanceCreateComputeInstance(void *gi, u32 id, void **o) { gi_t *x = inst(gi); if (!x->used) return NOTFOUND; if (x->ci_used) return NORES; x->ci_used = 1; x->ci_id = 0; x->cprofile = id;
  snprintf(x->uuid, sizeof x->uuid, "MIG-%08x-0000-5000-8000-%012x", (u32)MG(gi), (u32)(x->id * 256 + x->start)); *o = gi; return OK; }
int nvmlGpuInstanceGetComputeInstances(void *gi, u32 id, void **o, u32 *n) { *n = 0; if (inst(gi)->ci_used && inst(gi)->cprofile == id) { o[0] = gi; *n = 1; } return OK; }
typedef struct { void *dev, *gi; u32 id, profile; pl_t pl; } cii_t;
int nvmlComputeInstanceGetInfo_v2(void *ci, cii_t *o) { o->dev = (void *)(uintptr_t)(MG(ci) + 1); o->gi = ci; o->id = 0; o->profile = inst(ci)->cprofile; return OK; }
int nvmlComputeInstanceDestroy(void *ci) { gpu_t *g = dev(ci); if (!inst(ci)->ci_used) return NOTFOUND; for (u32 i = 0; i < g->nproc; i++) if (g->proc[i].gi == inst(ci)->id) return INUSE; inst(ci)->ci_used = 0; return OK; }
int nvmlDeviceGetMaxMigDeviceCount(void *h, u32 *n) { CHECK(h); *n = 7; return OK; }
int nvmlDeviceGetMigDeviceHandleByIndex(void *h, u32 i, void **o) { CHECK(h); u32 k = 0; for (int j = 0; j < MAXI; j++) if (dev(h)->gi[j].ci_used && k++ == i) { *o = (void *)(uintptr_t)(0x100 + (dev(h) - S->gpu)*MAXI + j); return OK; } return NOTFOUND; }
int nvmlDeviceIsMigDeviceHandle(void *h, u32 *b) { *b = ISMIG(h); return OK; }
int nvmlDeviceGetGpuInstanceId(void *h, u32 *i) { if (!ISMIG(h)) return INVAL; *i = inst(h)->id; return OK; }
int nvmlDeviceGetComputeInstanceId(void *h, u32 *i) { if (!ISMIG(h)) return INVAL; *i = 0; return OK; }
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void *h, void **o) { *o = (void *)(uintptr_t)(MG(h) + 1); return OK; }
