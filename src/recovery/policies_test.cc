// The policy table: which crash gets which remedy, and which crash gets none.

#include "recovery/policies.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>

namespace paramedic::recovery {
namespace {

// A crash at one line of train.py, inside library code when `below` is given.
Crash crash_of(std::vector<std::string> bases, const std::string& message,
               const std::string& code = "loss.backward()", const std::string& below = "") {
  Crash crash;
  crash.exception = bases.front();
  crash.bases = std::move(bases);
  crash.bases.emplace_back("Exception");
  crash.message = message;
  Frame frame;
  frame.file = "/job/train.py";
  frame.function = "work";
  frame.line = 31;
  frame.source = {{30, "for batch in loader:"}, {31, "    " + code}, {32, ""}};
  crash.frames = {frame};
  crash.traceback =
      "Traceback (most recent call last):\n  File \"/job/train.py\", line 31, in work\n    " +
      code + "\n    ^^^^^^\n" + below + crash.exception + ": " + message + "\n";
  return crash;
}

Crash os_error(int number, const std::string& type = "OSError") {
  Crash crash = crash_of({type, "OSError"}, fmt::format("[Errno {}] it failed", number));
  crash.error_number = number;
  return crash;
}

// "policy kind", or "none".
std::string chosen(const Crash& crash, int attempt = 0) {
  const auto remedy = Policies::builtin().remedy(crash, attempt);
  return remedy ? remedy->policy + " " + remedy->repair.kind : "none";
}

constexpr const char* kFetch =
    "  File \"/lib/python3.11/site-packages/torch/utils/data/_utils/fetch.py\", line 54, in fetch\n"
    "    data = [self.dataset[idx] for idx in possibly_batched_index]\n"
    "  File \"/job/train.py\", line 9, in __getitem__\n"
    "    return decode(self.paths[i])\n";

TEST(Policies, those_of_the_program_can_all_be_read) {
  const auto policies = Policies::parse(policy_files());
  ASSERT_TRUE(policies.ok()) << policies.status().message();
  EXPECT_EQ(policies->ids().size(), policy_files().size());
}

TEST(Policies, moments_of_storage_and_network_are_tried_again_with_growing_pauses) {
  for (const int number : {5, 104, 110, 116}) {
    EXPECT_EQ(chosen(os_error(number)), "transient_io retry") << number;
  }
  EXPECT_EQ(chosen(crash_of({"ConnectionResetError", "ConnectionError", "OSError"}, "reset")),
            "transient_io retry");
  EXPECT_EQ(chosen(crash_of({"RuntimeError"}, "[Errno 116] Stale file handle: '/nfs/a'")),
            "transient_io retry");
  int64_t last_ns = 0;
  int attempt = 0;
  while (const auto remedy = Policies::builtin().remedy(os_error(5), attempt++)) {
    EXPECT_GT(remedy->pause_ns, last_ns);
    last_ns = remedy->pause_ns;
    ASSERT_LT(attempt, 100);
  }
  EXPECT_GT(attempt, 3);
}

TEST(Policies, servers_that_cannot_answer_now_are_asked_again) {
  Crash crash = crash_of({"requests.exceptions.HTTPError", "OSError"}, "bad gateway");
  crash.http_status = 502;
  EXPECT_EQ(chosen(crash), "server_error retry");
  crash = crash_of({"requests.exceptions.HTTPError", "OSError"}, "Not Found for url");
  crash.http_status = 404;
  EXPECT_EQ(chosen(crash), "none");
  EXPECT_EQ(chosen(crash_of({"RuntimeError"}, "503 Service Unavailable")), "server_error retry");
}

TEST(Policies, a_missing_folder_is_made_where_something_is_written) {
  const auto remedy = Policies::builtin().remedy(
      crash_of({"RuntimeError"}, "Parent directory /out/it's here does not exist.",
               "torch.save(model, path)"),
      0);
  ASSERT_TRUE(remedy);
  EXPECT_EQ(remedy->repair.kind, "action");
  EXPECT_EQ(remedy->repair.code, R"(__import__('os').makedirs('/out/it\'s here', exist_ok=True))");
  const std::string message = "[Errno 2] No such file or directory: 'out/a/log.txt'";
  for (const char* code : {"with open(path, 'w') as f:", "open(path, mode=\"ab\")",
                           "np.save(path, array)", "plt.savefig(path)", "path.write_text('x')",
                           "logging.FileHandler(path)", "frame.to_csv(path)", "os.mkdir(path)"}) {
    const auto write =
        Policies::builtin().remedy(crash_of({"FileNotFoundError", "OSError"}, message, code), 0);
    ASSERT_TRUE(write) << code;
    EXPECT_EQ(write->repair.code, "__import__('os').makedirs('out/a', exist_ok=True)") << code;
  }
  const auto move =
      Policies::builtin().remedy(crash_of({"FileNotFoundError", "OSError"},
                                          message + " -> 'best/log.txt'", "os.replace(part, path)"),
                                 0);
  ASSERT_TRUE(move);
  EXPECT_EQ(move->repair.code, "__import__('os').makedirs('best', exist_ok=True)");
}

TEST(Policies, a_missing_file_that_is_read_is_no_missing_folder) {
  const std::string message = "[Errno 2] No such file or directory: 'data/test.lst'";
  for (const char* code :
       {"lines = open(path).read()", "open(path, 'r')", "open(path, 'rb')", "torch.load(path)",
        "np.load(path)", "frame = pandas.read_csv(path)", "open(args.words + 'a.txt')",
        "load(save_path(name))", "shutil.copy(path, best)", "ZipFile(path)"}) {
    EXPECT_EQ(chosen(crash_of({"FileNotFoundError", "OSError"}, message, code)), "none") << code;
  }
  const std::string bare = "[Errno 2] No such file or directory: 'log.txt'";
  EXPECT_EQ(chosen(crash_of({"FileNotFoundError", "OSError"}, bare, "open(path, 'w')")), "none");
}

TEST(Policies, only_the_statement_that_failed_is_looked_at) {
  Crash crash = crash_of({"FileNotFoundError", "OSError"},
                         "[Errno 2] No such file or directory: 'data/a.txt'", "text = read(");
  crash.frames[0].source = {
      {31, "    text = read("}, {32, "        path, \"a (b\")  # ("}, {33, "    model.save(out)"}};
  EXPECT_EQ(chosen(crash), "none");
  crash.frames[0].source[1].text = "        path, write(";
  EXPECT_EQ(chosen(crash), "missing_folder action");
}

TEST(Policies, a_collective_whose_other_side_is_gone_is_not_tried_again) {
  EXPECT_EQ(chosen(crash_of({"RuntimeError"},
                            "[../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection "
                            "closed by peer [127.0.0.1]:12345")),
            "none");
  EXPECT_EQ(chosen(crash_of({"RuntimeError"}, "Connection reset by peer")), "none");
}

TEST(Policies, a_write_deep_in_a_library_is_seen_by_its_code) {
  const Crash crash =
      crash_of({"FileNotFoundError", "OSError"}, "[Errno 2] No such file or directory: 'out/a.png'",
               "draw(picture, path)",
               "  File \"/lib/PIL/Image.py\", line 2600, in store\n"
               "    fp = builtins.open(filename, \"w+b\")\n"
               "         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n");
  EXPECT_EQ(chosen(crash), "missing_folder action");
}

TEST(Policies, a_full_disk_waits_and_tells_what_to_do) {
  for (const int number : {28, 122}) {
    EXPECT_EQ(chosen(os_error(number)), "full_disk retry") << number;
  }
  const auto remedy = Policies::builtin().remedy(os_error(28), 5);
  ASSERT_TRUE(remedy);
  EXPECT_NE(remedy->tell, "");
  EXPECT_GE(remedy->pause_ns, 10'000'000'000);
}

TEST(Policies, memory_that_runs_out_splits_the_batch) {
  EXPECT_EQ(chosen(crash_of({"torch.OutOfMemoryError", "RuntimeError"}, "CUDA out of memory.")),
            "out_of_memory split_batch");
  EXPECT_EQ(chosen(crash_of({"MemoryError"}, "")), "out_of_memory split_batch");
  EXPECT_EQ(chosen(crash_of({"RuntimeError"},
                            "[enforce fail at alloc_cpu.cpp:114] DefaultCPUAllocator: can't "
                            "allocate memory: you tried to allocate 40000000000 bytes.")),
            "out_of_memory split_batch");
}

TEST(Policies, a_broken_logger_is_silenced_by_its_name) {
  Crash crash = crash_of({"ValueError"}, "unexpected", "wandb.log({'loss': loss})",
                         "  File \"/lib/site-packages/wandb/sdk/wandb_run.py\", line 1, in log\n"
                         "    self._publish(x)\n");
  const auto remedy = Policies::builtin().remedy(crash, 0);
  ASSERT_TRUE(remedy);
  EXPECT_EQ(remedy->repair.kind, "action");
  EXPECT_EQ(remedy->repair.options["silence"], "wandb");
  EXPECT_EQ(chosen(crash_of({"ValueError"}, "unexpected", "my_wandb_like(loss)")), "none");
}

TEST(Policies, a_bad_sample_is_left_out_but_not_a_bug_of_the_data_set) {
  const auto remedy = Policies::builtin().remedy(
      crash_of({"ValueError"}, "truncated image", "for batch in loader:", kFetch), 0);
  ASSERT_TRUE(remedy);
  EXPECT_EQ(remedy->policy, "bad_sample");
  EXPECT_EQ(remedy->repair.kind, "skip");
  EXPECT_EQ(remedy->repair.options["sample"], true);
  EXPECT_EQ(chosen(crash_of({"NameError"}, "name 'np' is not defined", "for b in loader:", kFetch)),
            "none");
}

TEST(Policies, other_ends_of_a_training_that_need_no_person) {
  EXPECT_EQ(chosen(crash_of({"ValueError"},
                            "Expected more than 1 value per channel when training, got input size "
                            "torch.Size([1, 64])")),
            "single_sample_batch skip");
  EXPECT_EQ(chosen(crash_of({"RuntimeError"},
                            "DataLoader worker (pid 4242) is killed by signal: Killed. ")),
            "dead_worker retry");
  const std::string unpacking =
      "  File \"/lib/site-packages/torch/utils/data/dataloader.py\", line 1131, in _try_get_data\n"
      "    data = self._data_queue.get(timeout=timeout)\n"
      "  File \"/lib/python3.11/multiprocessing/connection.py\", line 399, in _recv\n"
      "    raise EOFError\n";
  const std::vector<std::vector<std::string>> ends = {
      {"EOFError"},
      {"FileNotFoundError", "OSError"},
      {"ConnectionResetError", "ConnectionError", "OSError"}};
  for (const auto& bases : ends) {
    EXPECT_EQ(chosen(crash_of(bases, "", "for batch in loader:", unpacking)), "dead_worker retry")
        << bases.front();
  }
  const Crash diverged = crash_of({"ValueError"}, "loss is nan at step 40");
  EXPECT_EQ(chosen(diverged), "not_finite rollback");
  EXPECT_EQ(chosen(diverged, 1), "not_finite skip");
  EXPECT_EQ(chosen(diverged, 3), "none");
  EXPECT_EQ(chosen(crash_of({"AssertionError"}, "", "assert torch.isfinite(loss).all()")),
            "not_finite rollback");
}

TEST(Policies, faults_of_the_program_get_no_remedy) {
  for (const char* type : {"TypeError", "KeyError", "AttributeError", "IndexError",
                           "ZeroDivisionError", "AssertionError", "NotImplementedError"}) {
    EXPECT_EQ(chosen(crash_of({type}, "it is wrong")), "none") << type;
  }
  EXPECT_EQ(chosen(crash_of({"ValueError"}, "invalid value for argument 'information'")), "none");
  EXPECT_EQ(chosen(os_error(13, "PermissionError")), "none");
  EXPECT_EQ(chosen(Crash{}), "none");
}

TEST(Policies, a_file_that_cannot_be_used_is_named_with_its_key) {
  constexpr const char* kGood = "title = 't'\n[[match]]\nexception = 'E'\n[[remedy]]\n";
  const std::array<std::pair<std::string, const char*>, 7> bad = {
      {{"title = 't'\n[[match]]\nmessage = '('\n[[remedy]]\nkind = 'retry'\n", "message"},
       {std::string(kGood) + "kind = 'magic'\n", "kind"},
       {std::string(kGood) + "kind = 'retry'\ntries = 0\n", "tries"},
       {std::string(kGood) + "kind = 'retry'\nwhen = 3\n", "when"},
       {"title = 't'\n[[match]]\nerrno = 'EIO'\n[[remedy]]\nkind = 'retry'\n", "errno"},
       {"title = 't'\n[[remedy]]\nkind = 'retry'\n", "match"},
       {"[[match]]\nexception = 'E'\n[[remedy]]\nkind = 'retry'\n", "title"}}};
  for (const auto& [text, key] : bad) {
    const std::array<EmbeddedFile, 1> files{{{"my.toml", text}}};
    const auto policies = Policies::parse(files);
    ASSERT_FALSE(policies.ok()) << text;
    EXPECT_NE(policies.status().message().find(fmt::format("my.toml: {}", key)), std::string::npos)
        << policies.status().message();
  }
}

TEST(Policies, a_number_that_is_not_finite_is_rolled_back_only_where_weights_are_trained) {
  const std::string message = "Input contains NaN";
  EXPECT_EQ(chosen(crash_of({"ValueError"}, message, "loss.backward()")), "not_finite rollback");
  EXPECT_EQ(chosen(crash_of({"ValueError"}, message, "scores = validate(model)")),
            "not_finite rollback");
  EXPECT_EQ(chosen(crash_of({"ValueError"}, message, "torch.save(model, path)")), "none");
  EXPECT_EQ(chosen(crash_of({"ValueError"}, message, "args = parser.parse_args()")), "none");
}

}  // namespace
}  // namespace paramedic::recovery
