// What a compiler calls at each basic block under -fsanitize-coverage=trace-pc. Here it does
// nothing; cost_test.cc has one that counts.

extern "C" __attribute__((weak)) void __sanitizer_cov_trace_pc() {}  // NOLINT: not our name
