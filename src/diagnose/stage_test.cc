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

TEST(Stage, OfAScriptIsOnlyHintedAtByItsName) {
  // What a script does next tells more than what it is called, and so does the log.
  EXPECT_EQ(stage_of({{"/job/align_dataset.py", "<module>", "main()"},
                      {"/job/align_dataset.py", "main", "net = build_face_detector(cfg)"}}),
            "model");
  EXPECT_EQ(stage_of({{"/job/pose_demo_video.py", "<module>", "main()"},
                      {"/job/pose_demo_video.py", "main", "scale = 1 / frames[0].size"}}),
            "evaluate");
}

TEST(Stage, IsNotReadOffTheNamesOfFolders) {
  EXPECT_EQ(stage_of({{"D:\\Getdata\\run.py", "<module>", "main()"},
                      {"D:\\DATASET\\gan\\engine.py", "fit", "net.backward(x)"}}),
            "train");
}

TEST(Stage, IsTheSameForAPageThatDroppedTheUnderscores) {
  EXPECT_EQ(
      stage_of({{"/x/site-packages/lib/trainer/trainer.py", "init", "self.gpus = odd(g)"}}),
      stage_of({{"/x/site-packages/lib/trainer/trainer.py", "__init__", "self.gpus = odd(g)"}}));
}

TEST(Stage, OfThePackageThatRunsItsTopLevelIsImport) {
  EXPECT_EQ(stage_of({{"/opt/py/lib/python3.7/runpy.py", "_get_module_details", "__import__(name)"},
                      {"/x/site-packages/lib/__init__.py", "<module>", "_load_native()"},
                      {"/x/site-packages/lib/__init__.py", "_load_native", "odd(path)"}}),
            "import");
}

TEST(Stage, OfAWrapperOfAProcessGroupIsDistributedWhateverMakesIt) {
  EXPECT_EQ(stage_of({{"/job/t.py", "make_model", "net = nn.parallel.DistributedDataParallel(net)"},
                      {"/x/site-packages/torch/nn/parallel/distributed.py", "__init__",
                       "dist._verify_odd_across_ranks(group)"}}),
            "distributed");
}

TEST(Stage, OfAnEvaluationIsValidateWhereTheLogTellsOfOne) {
  const std::vector<Place> places = {{"/job/run.py", "<module>", "main()"},
                                     {"/job/run.py", "main", "loss = evaluate(net, batches)"}};
  EXPECT_EQ(stage_of(places), "evaluate");
  EXPECT_EQ(stage_of(places, "Valid (loss 53.3) epoch 1:   9%\n"), "validate");
}

TEST(Stage, OfAModelThatIsPickledIsCheckpoint) {
  EXPECT_EQ(stage_of({{"train.py", "train_model", "pickle.dump(model, f)"}}), "checkpoint");
  EXPECT_EQ(stage_of({{"train.py", "train_model", "joblib.dump(self.agent, path)"}}), "checkpoint");
  EXPECT_NE(stage_of({{"train.py", "train_model", "pickle.dump(rows, f)"}}), "checkpoint");
}

TEST(Stage, OfATestThatIsGivenTheEpochIsValidate) {
  // Only a training has epochs: a test between two of them is its validation.
  EXPECT_EQ(stage_of_call("test(epoch, net, batches, writer)"), "validate");
  EXPECT_EQ(stage_of_call("evaluate(net, batches, writer)"), "evaluate");
}

TEST(Stage, IsUnknownForALineThatNothingStandsAround) {
  const auto of = [](const std::string& text) {
    return std::string(name(diagnose_text("job.log", text).verdict.stage));
  };
  const std::string line = "RuntimeError: CUDA out of memory. Tried to allocate 9 MiB\n";
  EXPECT_EQ(of(line), "unknown");
  EXPECT_EQ(of("I got this while training my model\n" + line), "train");
  EXPECT_EQ(of(line + "\nThis came while training the model\n"), "train");
  EXPECT_EQ(of("It stops when resuming from the checkpoint\nRuntimeError: odd 17\n"), "checkpoint");
  EXPECT_EQ(of("I get it when trying to train.\nImportError: libodd.so.8: cannot open shared "
               "object file: No such file or directory\n"),
            "import");
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
