// Which phase failed: by general structure, in jobs that are in no collection of logs.

#include "diagnose/stage.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "diagnose/diagnose.h"

namespace paramedic::diagnose {
namespace {

struct Place {
  std::string file;
  std::string function;
  std::string code;
};

// The phase of a failure whose stack is `places`, after the lines `before`.
std::string stage_of(const std::vector<Place>& places, const std::string& before = "",
                     const std::string& error = "OddError: it failed") {
  std::string text = before + "Traceback (most recent call last):\n";
  for (const Place& place : places) {
    text += "  File \"" + place.file + "\", line 7, in " + place.function + "\n    " + place.code +
            "\n";
  }
  return std::string(name(diagnose_text("job.log", text + error + "\n").verdict.stage));
}

std::string stage_of_call(const std::string& code) {
  return stage_of({{"/job/main.py", "<module>", "main()"}, {"/job/main.py", "main", code}});
}

TEST(Stage, IsToldByTheVerbAndTheNounOfAFunction) {
  EXPECT_EQ(stage_of_call("x, y = load_mnist_data(path)"), "data");
  EXPECT_EQ(stage_of_call("parts = build_train_val_dataloaders(cfg)"), "data");
  EXPECT_EQ(stage_of_call("vocab = create_word_vocab(texts)"), "data");
  EXPECT_EQ(stage_of_call("net = build_resnet_backbone(cfg)"), "model");
  EXPECT_EQ(stage_of_call("opt = make_lr_scheduler(opt)"), "model");
  EXPECT_EQ(stage_of_call("cfg = merge_model_config(cfg, extra)"), "arguments");
  EXPECT_EQ(stage_of_call("_save_training_checkpoint(step)"), "checkpoint");
  EXPECT_EQ(stage_of_call("setup_logging_writer(args)"), "start");
  EXPECT_EQ(stage_of_call("initialize_model_parallel(2)"), "distributed");
  EXPECT_EQ(stage_of_call("run_epoch_validation(net)"), "validate");
  EXPECT_EQ(stage_of_call("main(args, init_distributed=True)"), "unknown");
}

TEST(Stage, OfAnImportIsThatOfWhatRanAndHadToImport) {
  const Place script = {"/job/train.py", "<module>", "from job.net import Net"};
  const Place module = {"/job/net.py", "<module>", "import apex"};
  EXPECT_EQ(stage_of({script, module}, "", "ModuleNotFoundError: No module named 'apex'"),
            "import");
  const Place inside = {"/x/site-packages/lib/lazy.py", "load", "import tensorboard"};
  EXPECT_EQ(stage_of({{"/job/train.py", "<module>", "writer = SummaryWriter()"}, inside}), "start");
  EXPECT_EQ(stage_of({{"/job/train.py", "<module>", "x = odd()"}, inside}), "import");
}

TEST(Stage, OfTheLaterPhaseCountsWhereTheLogTellsOfPreparations) {
  const std::vector<Place> places = {{"/job/onnx_export.py", "<module>", "_ = net(image)"}};
  EXPECT_EQ(stage_of(places, "Model Summary: 140 layers\n"), "export");
  EXPECT_EQ(stage_of(places, "Epoch 3 loss 0.2\n"), "train");
}

TEST(Stage, OfAPredictionInsideThePreprocessingIsEvaluation) {
  EXPECT_EQ(stage_of({{"/job/prepare.py", "<module>", "preprocess(texts)"},
                      {"/job/prepare.py", "preprocess", "return self.tagger.predict(text)"}}),
            "evaluate");
}

TEST(Stage, OfTheTestsOfATestSuiteIsNone) {
  EXPECT_EQ(stage_of({{"/usr/lib/python3.11/unittest/case.py", "run", "self._callTestMethod(m)"},
                      {"/job/tests/test_ops.py", "test_sum", "assert_close(a, b)"}}),
            "unknown");
}

TEST(Stage, IsToldByTheBarOnWhoseLineATracebackBegins) {
  EXPECT_EQ(stage_of({{"/job/t.py", "<module>", "trainer.fit(model)"}},
                     "Validation sanity check: 50it [00:00, 212.11it/s]   "),
            "validate");
}

TEST(Stage, IsNotToldByTheStepsOfSlurm) {
  const std::string text =
      "slurmstepd: error: *** STEP 37361369.0 ON node01 CANCELLED AT 2021-03-15T17:50:23 ***\n"
      "slurmstepd: error: *** JOB 37361369 ON node01 CANCELLED AT 2021-03-15T18:00:46 DUE TO "
      "PREEMPTION ***\n";
  const Verdict verdict = diagnose_text("job.log", text).verdict;
  EXPECT_EQ(name(verdict.stage), "unknown");
  EXPECT_EQ(verdict.last_step, -1);
}

TEST(Stage, IsHintedAtByTheSourceThatNativeCodeNames) {
  const std::string text =
      "terminate called after throwing an instance of 'thrust::system::system_error'\n"
      "  what():  /src/boost/predictor/gpu_predictor.cu(322): unspecified launch failure\n";
  EXPECT_EQ(name(diagnose_text("job.log", text).verdict.stage), "evaluate");
}

}  // namespace
}  // namespace paramedic::diagnose
