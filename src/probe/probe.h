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
#define PARAMEDIC_PROBE_VERSION 8
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

/* A call of a collective or point-to-point operation. The ids are of paramedic_define, of kinds 8
 * (group of processes), 9 (operation) and 10 (call site). */
typedef struct {
  uint32_t group;
  uint32_t operation;
  uint32_t where;       /* UINT32_MAX = not known */
  int32_t peer;         /* global rank of root, source or destination; -1 = there is none */
  uint64_t bytes;       /* of all inputs */
  uint8_t dtype;        /* stats::DType */
  uint8_t ndim;         /* 0..8 */
  uint8_t asynchronous; /* 0 or 1: it is left when it has been waited for */
  uint8_t reserved[5];
  int64_t sizes[PARAMEDIC_MAX_DIMS]; /* of the first input */
} paramedic_collective;

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

/* Marks the ring as ended in good order and frees nothing: for the end of a process in which other
 * threads may still be inside a call. What comes after it is dropped. */
void paramedic_probe_finish(paramedic_probe* probe);

/* Gives a number to a name (UTF-8, at most 512 bytes, longer ones are cut), once for each tensor;
 * for kind 6 (scalar) dtype, ndim and sizes are ignored. The name of a call site is its function,
 * a newline and its file; its one size is the line. -1 when the directory is full or the
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

/* Writes a 64-bit fingerprint of the bits of each of `count` tensors to `fingerprints`: the same
 * for equal bits in the same order, on any machine; 0 for a tensor that is all zero, has no
 * element, or cannot be read. id, unit_dim and divisor are not looked at. Needs no probe. */
void paramedic_fingerprint(const paramedic_tensor* tensors, int32_t count, uint64_t* fingerprints);

/* Records an event: `kind` of at most 64 bytes, `json` of at most 256 KiB. 1 if recorded. */
int32_t paramedic_event(paramedic_probe* probe, uint8_t mode, int64_t step, const char* kind,
                        const char* json);

/* Records that `call`, the number-th (from 0) of this process in its group, is entered, or that it
 * has returned. 1 if recorded. */
int32_t paramedic_collective_enter(paramedic_probe* probe, int64_t step, int64_t number,
                                   const paramedic_collective* call);
int32_t paramedic_collective_leave(paramedic_probe* probe, int64_t step, int64_t number,
                                   uint32_t group);

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

/* A gate stands where a training loop tells of itself: an iteration begins, a backward pass or an
 * optimizer's step is about to run, gradients were cleared. As a rule there is nothing to do but to
 * keep the random state, and that is done here; what is more goes on to functions of Python. In
 * Python all of it would cost an iteration 60 microseconds, since none of its code is in a cache
 * between two operations of a framework.
 *
 * All numbers are the owner's to set; objects are addresses of Python's, held by the owner. */
#define PARAMEDIC_GATE_PIECES 16
#define PARAMEDIC_GATE_VALUES 8
#define PARAMEDIC_GATE_OWNERS 8
#define PARAMEDIC_GATE_CLEARERS 32

/* Bytes that are copied at each mark; where first and last 24 are as they were, all are. */
typedef struct {
  uint64_t live;
  uint64_t kept;
  int64_t bytes;
} paramedic_gate_piece;

/* An attribute whose value is kept at each mark; the gate holds a reference to it. */
typedef struct {
  uint64_t object;
  uint64_t name;
  uint64_t kept;
} paramedic_gate_value;

/* An optimizer: its steps begun so far, and until the mark; cleared: since the last backward pass
 * its weights have no gradients; idle: its gradients are those that Python saw last, unless their
 * versions say something else; had_none: whether it was cleared at the first change. */
typedef struct {
  uint64_t object;
  int64_t steps;
  int64_t steps_at_mark;
  int64_t cleared;
  int64_t idle;
  int64_t had_none;
} paramedic_gate_owner;

/* What has a `zero_grad`, and whose gradients that clears: bits of the owners. */
typedef struct {
  uint64_t object;
  uint64_t owners;
} paramedic_gate_clearer;

/* on_mark(loop): unless `loop` is the expected one, fewer than look_at marks were made, and
 * Python has loaded no module since. on_keep(): at each mark, or 0. on_change(): before the first
 * backward pass or step of an iteration unless may_skip and all owners are cleared or idle (skipped
 * is 1 then); before each one while zeroed. on_step(optimizer): one that is no owner.
 * on_clear(object): one that is no clearer. on_level(): what is asked where backward passes are
 * noticed. sequence: a function of the framework, or 0. */
typedef struct {
  uint64_t on_mark;
  uint64_t on_keep;
  uint64_t on_change;
  uint64_t on_step;
  uint64_t on_clear;
  uint64_t on_level;
  uint64_t none;
  uint64_t modules;
  uint64_t loop;
  uint64_t thread;
  uint64_t sequence;
  int64_t sequence_at_mark;
  int64_t module_count;
  int64_t marks;
  int64_t look_at;
  int64_t may_skip;
  int64_t changed;
  int64_t skipped;
  int64_t zeroed;
  int64_t piece_count;
  int64_t value_count;
  int64_t owner_count;
  int64_t clearer_count;
  paramedic_gate_piece pieces[PARAMEDIC_GATE_PIECES];
  paramedic_gate_value values[PARAMEDIC_GATE_VALUES];
  paramedic_gate_owner owners[PARAMEDIC_GATE_OWNERS];
  paramedic_gate_clearer clearers[PARAMEDIC_GATE_CLEARERS];
} paramedic_gate;

/* 1 where the interpreter offers what functions that it calls need: its stable ABI. */
int32_t paramedic_native_works(void);

/* Keeps pieces and values as they are now. Called with the GIL held, like all of these. */
void paramedic_gate_keep(paramedic_gate* gate);

/* Bodies of Python functions. `self` is a capsule, without name, of a gate; the answer is a new
 * reference, or null with an exception set, which only a function of the owner can raise.
 * METH_O: mark(loop), cleared(object). METH_NOARGS: backward(). METH_FASTCALL: step(optimizer, …).
 */
void* paramedic_gate_mark(void* self, void* loop);
void* paramedic_gate_cleared(void* self, void* object);
void* paramedic_gate_backward(void* self, void* unused);
void* paramedic_gate_step(void* self, void* const* arguments, int64_t count);

/* Named numbers that wait to be written together (paramedic_scalars_of_steps). */
#define PARAMEDIC_NUMBERS 256
typedef struct {
  int64_t steps[PARAMEDIC_NUMBERS];
  double values[PARAMEDIC_NUMBERS];
  int32_t ids[PARAMEDIC_NUMBERS];
  int64_t count;
  paramedic_probe* probe;
} paramedic_numbers;

/* A stretch: the steps of a training loop from one at which something is due to the next. All that
 * is done in them is done here: the loss is read where it lies, six values of a gradient are looked
 * at, the step is counted. In Python that took 15 to 20 microseconds a step. Whatever is not as the
 * owner has written it here goes to the owner's functions.
 *
 * All numbers are the owner's to set; objects are addresses of Python's, held by the owner. */
#define PARAMEDIC_STRETCH_LINES 8
#define PARAMEDIC_STRETCH_RATES 32
#define PARAMEDIC_STRETCH_OPTIMIZERS 16

/* A line that calls `backward()`: its code, the place in it, the scalar that its loss is, and
 * whether it has called it in the open step. */
typedef struct {
  uint64_t code;
  int64_t place;
  int64_t number;
  int64_t is_seen;
} paramedic_stretch_line;

/* The learning rate of a group of parameters: the type of the number, what it was last, and the
 * scalar that it is. */
typedef struct {
  uint64_t type;
  double value;
  int64_t number;
} paramedic_stretch_rate;

/* An optimizer, or 0 for one whose steps are none of the stretch. parameter: a function without
 * arguments that answers the one whose gradient is looked at, or 0. Its learning rates are
 * rate_count from first_rate on. last_step: in which it stepped last, or was made. is_stepped:
 * whether it has in the open step; steps: how often in the stretch. */
typedef struct {
  uint64_t optimizer;
  uint64_t parameter;
  int64_t first_rate;
  int64_t rate_count;
  int64_t last_step;
  int64_t is_stepped;
  int64_t steps;
} paramedic_stretch_optimizer;

/* Where a framework keeps what is read of a tensor, in bytes from the start of each object; found
 * and proved by the owner. in_object: in Python's object the address of the tensor. In that, its
 * dispatch keys (64 bits), the number of its type (16 bits), the address of its storage, where it
 * begins there (in elements), and the address of what autograd keeps of it. data: in a storage the
 * address of its first byte. gradient: in what autograd keeps the address of that tensor.
 * plain_keys, float32: what they are of one on the CPU. no_tensor: the address of none. */
typedef struct {
  int64_t in_object;
  int64_t keys;
  int64_t type;
  int64_t storage;
  int64_t offset;
  int64_t autograd;
  int64_t data;
  int64_t gradient;
  uint64_t plain_keys;
  uint64_t float32;
  uint64_t no_tensor;
} paramedic_tensor_layout;

/* What others read of a training loop: the number of the open step, and a number that grows while
 * it goes on. */
typedef struct {
  int64_t step;
  int64_t signs;
} paramedic_progress;

/* A step is over when an optimizer steps again or, after one has, a line calls `backward()` again;
 * and when all have stepped but those that did not in the last forget_steps, which are not waited
 * for.
 *
 * `on` is set when a stretch begins. run(tensors, ...): the genuine `backward`; on_backward: a pass
 * that is none of the stretch, with the same arguments. on_step(optimizer, args, kwargs): a step
 * that is not taken here. gate: that of a paramedic_gate, or 0, which is told of each step then.
 * on_first(): an optimizer has stepped, which clears is_first; on_keep():
 * after each step, or 0; on_due(): something is due in the step that was just opened; their
 * exceptions end with them. progress: a paramedic_progress. first_ns, last_ns: when the stretch
 * began, and when its last step ended; own_ns: what one of its steps took of ours. numbers: a
 * paramedic_numbers. random: what is kept after each step while it has a length, and random_step
 * the step that was open then.
 *
 * Each tick_every_ns, and when ask_step is opened, numbers are written, the steps since told_ns
 * (told_steps of the stretch were before it) are accounted for, and it is asked what is due: what
 * waits for the budget may be covered by now.
 *
 * What each step needs stands together: none of it is in a cache when a step comes to it. */
typedef struct {
  int64_t on;
  uint64_t thread;
  uint64_t run;
  uint64_t on_backward;
  uint64_t tensor_type;
  uint64_t none;
  uint64_t name_back; /* names of attributes and of an item */
  uint64_t name_code;
  uint64_t name_place;
  uint64_t name_groups;
  uint64_t name_rate;
  paramedic_tensor_layout layout;
  int64_t line_count;
  int64_t optimizer_count;
  uint64_t gate;
  uint64_t numbers;
  uint64_t progress;
  int64_t step;
  int64_t last_step; /* the first step that is none of the stretch */
  int64_t end_ns;    /* nor is one that ends later; of CLOCK_MONOTONIC */
  int64_t steps;
  int64_t last_ns;
  int64_t ask_step;
  int64_t tick_ns;
  int64_t forget_steps;
  uint64_t on_keep;
  paramedic_gate_piece random;
  int64_t random_step;
  int64_t is_first;
  int64_t timed; /* 2 in the first step, 1 in one that is measured: the second, or after a tick */
  uint64_t on_step;
  uint64_t on_first;
  uint64_t on_due;
  int64_t tick_every_ns;
  int64_t told_ns;
  int64_t told_steps;
  int64_t first_ns;
  int64_t own_ns;
  paramedic_stretch_line lines[PARAMEDIC_STRETCH_LINES];
  paramedic_stretch_optimizer optimizers[PARAMEDIC_STRETCH_OPTIMIZERS];
  paramedic_stretch_rate rates[PARAMEDIC_STRETCH_RATES];
} paramedic_stretch;

/* Bodies of Python functions. `self` of the first is a module whose state is the address of a
 * stretch, so that the function can be pickled as what it stands for; METH_FASTCALL |
 * METH_KEYWORDS: backward(tensors, gradients, ...), which goes to `run` when it is one of this
 * stretch and its loss is kept, else to on_backward. METH_FASTCALL: step(optimizer, args, kwargs),
 * a hook before an optimizer's step. */
void* paramedic_stretch_backward(void* self, void* const* arguments, int64_t count, void* names);
void* paramedic_stretch_step(void* self, void* const* arguments, int64_t count);

/* The clocks of a thread that trains together with others: how long it has waited for them, and its
 * beats, one a step. In Python they took 200 instructions a step.
 *
 * All numbers are the owner's to set; objects are addresses of Python's, held by the owner. */
#define PARAMEDIC_PACE_BEATS 512
/* The clock of the thread costs 2 microseconds: of passes shorter than this, one in so many asks
 * it. */
#define PARAMEDIC_PACE_LONG_PASS_NS 2000000
#define PARAMEDIC_PACE_SHORT_PASSES 4

/* on_beat(): a beat that is not kept here: the first, one at which there is something to report,
 * one of another thread. backward, wait: the genuine functions; the time of the latter is waiting.
 * waiting: when the wait that lasts now began, 0 outside. pass_cpu_ns: what the thread computed in
 * a backward pass, as last asked; backward_cpu_ns: in all since the report. beats: since the job
 * began; count: those of which it is kept how long the thread worked and waited; report_ns: when
 * they are due; all of CLOCK_MONOTONIC. */
typedef struct {
  uint64_t on_beat;
  uint64_t backward;
  uint64_t wait;
  uint64_t tensor_type;
  uint64_t none;
  uint64_t yes; /* Python's True */
  uint64_t name_is_cpu;
  uint64_t thread;
  int64_t on;
  int64_t waiting;
  int64_t waited_ns;
  int64_t in_backward;
  int64_t passes;
  int64_t pass_cpu_ns;
  int64_t backward_cpu_ns;
  int64_t beats;
  int64_t beat_ns;
  int64_t beat_waited_ns; /* waited_ns at that time */
  int64_t report_ns;
  int64_t count;
  int64_t self_us[PARAMEDIC_PACE_BEATS];
  int64_t wait_us[PARAMEDIC_PACE_BEATS];
} paramedic_pace;

/* Bodies of Python functions, as above. METH_FASTCALL: beat(...), which looks at no argument: a
 * hook before an optimizer's step. METH_VARARGS | METH_KEYWORDS: backward(tensors, ...), wait(...).
 */
void* paramedic_pace_beat(void* self, void* const* arguments, int64_t count);
void* paramedic_pace_backward(void* self, void* arguments, void* keywords);
void* paramedic_pace_wait(void* self, void* arguments, void* keywords);

/* A tap of the methods of process groups. A call that was made before, from the same line on
 * tensors of the same shape, is recorded here; any other one goes to the owner's function, which
 * writes it down here for the next time. In Python a call took 3 microseconds in a loop.
 *
 * All numbers are the owner's to set; objects are addresses of Python's, held by the owner. */
#define PARAMEDIC_TAP_CALLS 512
#define PARAMEDIC_TAP_METHODS 32
#define PARAMEDIC_TAP_PASSED 64

/* genuine: the method itself. usual(*args, **kwargs): the owner's, for what is not done here.
 * tensors: which argument has the tensors, behind the group; has_root: the last argument names a
 * root. */
typedef struct {
  uint64_t tap; /* a paramedic_tap */
  uint64_t genuine;
  uint64_t usual;
  int64_t tensors;
  int64_t has_root;
} paramedic_tap_method;

/* A call that was made before: the user's code and the place in it, the method, a weak reference to
 * the group, shape and type of the only tensor, and the root as the call names it or -1. What it is
 * to the owner, an iterator over the numbers of the group's calls, and what the probe is told. */
typedef struct {
  uint64_t code;
  int64_t place;
  uint64_t method;
  uint64_t group;
  uint64_t shape;
  uint64_t dtype;
  int64_t root;
  int64_t asynchronous;
  uint64_t call;
  uint64_t numbers;
  uint64_t record; /* a paramedic_collective */
} paramedic_tap_call;

/* inside: a dict from the thread to what it is in; works: from the id of what a call returned to
 * what it was, at most works_max. What is kept in both is a pair of the owner's call and its
 * number. count: calls entered and left here. missed: where the owner may write down the call that
 * it is asked for, or -1. passed: code of the framework, above which the user's line is looked
 * for. */
typedef struct {
  uint64_t probe;   /* 0: nothing is recorded here */
  uint64_t session; /* its attribute `step` is that of the open step */
  uint64_t inside;
  uint64_t works;
  uint64_t list_type;
  uint64_t none;
  uint64_t yes; /* Python's True and False */
  uint64_t no;
  uint64_t name_step; /* names of attributes */
  uint64_t name_code;
  uint64_t name_place;
  uint64_t name_back;
  uint64_t name_shape;
  uint64_t name_dtype;
  uint64_t name_asynchronous;
  uint64_t name_root;
  uint64_t name_group;
  int64_t works_max;
  int64_t count;
  int64_t missed;
  int64_t passed_count;
  uint64_t passed[PARAMEDIC_TAP_PASSED];
  paramedic_tap_method methods[PARAMEDIC_TAP_METHODS];
  paramedic_tap_call calls[PARAMEDIC_TAP_CALLS];
} paramedic_tap;

/* Bodies of Python functions, METH_VARARGS | METH_KEYWORDS; `self` is a capsule of a
 * paramedic_tap_method. call(group, ...): a method of the group. wait(work, ...): waits for what
 * one returned. Any thread may call them. */
void* paramedic_tap_call_method(void* self, void* arguments, void* keywords);
void* paramedic_tap_wait(void* self, void* arguments, void* keywords);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif /* PARAMEDIC_PROBE_H_ */
