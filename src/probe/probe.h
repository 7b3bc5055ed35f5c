#ifndef PARAMEDIC_PROBE_H_
#define PARAMEDIC_PROBE_H_
/* The C library inside the training process. It fails open: no function aborts, exits, blocks,
 * throws, or calls back (paramedic_audit alone is there to do so); after an internal error every
 * function does nothing and paramedic_probe_error tells why. Any thread may call any function;
 * calls on one probe are serialised by a try-lock, and a call that cannot get it in time drops its
 * records and counts them. After fork() the child's copy of a probe is off: the child opens one of
 * its own. */
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Both sides check it: a Python side of another version does not attach. */
#define PARAMEDIC_PROBE_VERSION 3
#define PARAMEDIC_MAX_DIMS 8

typedef struct paramedic_probe paramedic_probe; /* NOLINT(readability-identifier-naming) */

typedef struct {
  uint32_t struct_bytes;      /* sizeof(paramedic_options) */
  uint32_t ring_bytes;        /* 0 = the default, 8 MiB; rounded up to a power of two */
  const char* ring_directory; /* where the ring file is made: /dev/shm or the run folder */
  const char* run_id;         /* becomes part of the file's name */
  const char* plan;           /* capture plan, docs/formats/capture-plan.md; "" = the default */
  double overhead_budget;     /* share of step time, 0.01 = 1 %; 0 = no limit */
  int32_t rank;
  int32_t world_size;
} paramedic_options;

/* One tensor of a paramedic_capture call. sizes and strides are in elements. */
typedef struct {
  uint64_t data;    /* address of the first element, in this process's memory */
  uint32_t id;      /* of paramedic_define */
  uint8_t dtype;    /* stats::DType */
  uint8_t ndim;     /* 0..8 */
  uint8_t unit_dim; /* dimension whose indices are units; 255 = do not look at units */
  uint8_t reserved;
  int64_t sizes[PARAMEDIC_MAX_DIMS];
  int64_t strides[PARAMEDIC_MAX_DIMS];
  double divisor; /* statistics are those of x/divisor (loss scale); 0 or 1 = as it is */
  double low;     /* units: the range in which the activation still moves */
  double high;
} paramedic_tensor;

/* Bits of what is due, one for each kind (record::Kind): 1 << kind. */
#define PARAMEDIC_DUE(kind) (1u << (kind))

/* The version the library was built with: PARAMEDIC_PROBE_VERSION. */
int32_t paramedic_probe_version(void);

/* Makes the ring. Returns null when it could not; `error` (may be null) then holds why, cut to
 * error_bytes. */
paramedic_probe* paramedic_probe_open(const paramedic_options* options, char* error,
                                      uint32_t error_bytes);

/* Marks the ring as ended in good order and frees the probe. Null is allowed. The ring file stays:
 * the agent removes it once it has read everything. */
void paramedic_probe_close(paramedic_probe* probe);

/* Gives a number to a name (UTF-8, at most 512 bytes, longer ones are cut), once for each tensor;
 * for kind 6 (scalar) dtype, ndim and sizes are ignored. -1 when the directory is full or the
 * probe is off. */
int32_t paramedic_define(paramedic_probe* probe, uint8_t kind, uint8_t dtype, uint8_t ndim,
                         const int64_t* sizes, const char* name);

/* What is due at `step` in `mode`: bits PARAMEDIC_DUE. O(1) when nothing is. A kind whose cost
 * would pass the budget is put off and stays due, unless the plan names the step explicitly. Asked
 * again for the same step and mode it answers the same. Only what it answered is captured at that
 * step; scalars and events are recorded whenever they are given. */
uint32_t paramedic_due(paramedic_probe* probe, uint8_t mode, int64_t step);

/* The first step after `step` at which the plan asks for something that is not put off already;
 * INT64_MAX when there is none. Until then paramedic_due has to be asked again only for what was
 * put off, as often as the caller likes. */
int64_t paramedic_next_due(paramedic_probe* probe, uint8_t mode, int64_t step);

/* Computes and records the statistics (and histogram, raw values: as the plan says for each
 * tensor) of `count` tensors. The memory is only read, and only during the call. Returns how many
 * were recorded. */
int32_t paramedic_capture(paramedic_probe* probe, uint8_t mode, int64_t step,
                          const paramedic_tensor* tensors, int32_t count);

/* Records named numbers, of one step or of several: values[i] is scalar ids[i] of step steps[i];
 * numbers of one step stand together. Returns how many were recorded. */
int32_t paramedic_scalars_of_steps(paramedic_probe* probe, uint8_t mode, const int64_t* steps,
                                   const int32_t* ids, const double* values, int32_t count);

/* Reads one number of `dtype` at `data`, divides it by `divisor` (0 or 1: as it is), records it
 * as scalar `id`, and returns it; NaN when the probe is off. For the loss. */
double paramedic_scalar_at(paramedic_probe* probe, uint8_t mode, int64_t step, int32_t id,
                           uint64_t data, uint8_t dtype, double divisor);

/* Records an event: `kind` of at most 64 bytes, `json` of at most 256 KiB. 1 if recorded. */
int32_t paramedic_event(paramedic_probe* probe, uint8_t mode, int64_t step, const char* kind,
                        const char* json);

/* The step ended: feeds the budget. Steps at which nothing was captured may be told together, with
 * the last one's number. step_ns: wall time since the last call; spent_ns: how much of it the
 * caller spent on Paramedic outside of paramedic_capture, for each kind of spent_kinds (bits) in
 * common. */
void paramedic_step_done(paramedic_probe* probe, int64_t step, int64_t step_ns, int64_t spent_ns,
                         uint32_t spent_kinds);

/* The measured cost so far, in percent of step time; 0 before the first step. */
double paramedic_overhead_percent(const paramedic_probe* probe);

/* Records dropped because the ring was full or another thread held the probe. */
uint64_t paramedic_dropped(const paramedic_probe* probe);

/* Why the probe is off; "" while it works. Valid until paramedic_probe_close. */
const char* paramedic_probe_error(const paramedic_probe* probe);

/* A few of the interpreter's audit events. All of it stays valid for the life of the process, since
 * a hook cannot be removed; `on` is the owner's to change. */
typedef int32_t (*paramedic_follow)(const char* event, void* arguments);
typedef struct {
  paramedic_follow follow;
  const char* const* events;
  int32_t count;
  int32_t on;
} paramedic_audit_watch;

/* For PySys_AddAuditHook, with a paramedic_audit_watch as its user data: hands the watched events
 * on to `follow` and answers what it answers, 0 for all others. */
int32_t paramedic_audit(const char* event, void* arguments, void* user_data);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif /* PARAMEDIC_PROBE_H_ */
