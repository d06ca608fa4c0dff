/* The instances that an H200 can be cut into. */
#include "machine.h"

#include <string.h>

const profile_t profiles[PROFILES] = {
    {0, 19, 1, 1, 16, 16384, 7, {0, 1, 2, 3, 4, 5, 6, -1}, "MIG 1g.18gb"},
    {7, 20, 1, 1, 16, 16384, 1, {0, 1, 2, 3, 4, 5, 6, -1}, "MIG 1g.18gb+me"},
    {9, 15, 1, 2, 26, 33280, 4, {0, 2, 4, 6, -1}, "MIG 1g.35gb"},
    {1, 14, 2, 2, 32, 33280, 3, {0, 2, 4, -1}, "MIG 2g.35gb"},
    {2, 9, 3, 4, 60, 71424, 2, {0, 4, -1}, "MIG 3g.71gb"},
    {3, 5, 4, 4, 64, 71424, 1, {0, -1}, "MIG 4g.71gb"},
    {4, 0, 7, 8, 132, 143360, 1, {0, -1}, "MIG 7g.141gb"},
};

const profile_t *profile_by_id(u32 id) {
  for (u32 i = 0; i < PROFILES; i++)
    if (profiles[i].id == id) return &profiles[i];
  return NULL;
}

/* The instance that a compute instance makes a device of, by its UUID. */
instance_t *instance_by_uuid(const char *uuid, u32 *gpu) {
  for (*gpu = 0; *gpu < machine->told.ngpu; ++*gpu)
    for (u32 i = 0; i < INSTANCES; i++) {
      instance_t *instance = &machine->told.gpu[*gpu].gi[i];
      if (instance->used && instance->ci_used && !strcmp(uuid, instance->uuid)) return instance;
    }
  return NULL;
}
