#include "store/rows.h"

namespace paramedic::store {

const char* mode_name(Mode mode) {
  switch (mode) {
    case Mode::kTrain:
      return "train";
    case Mode::kEval:
      return "eval";
    case Mode::kPredict:
      return "predict";
    case Mode::kGlobal:
      return "global";
  }
  return "global";
}

const char* kind_name(Kind kind) {
  switch (kind) {
    case Kind::kWeight:
      return "weight";
    case Kind::kGradient:
      return "gradient";
    case Kind::kActivation:
      return "activation";
    case Kind::kInput:
      return "input";
    case Kind::kLoss:
      return "loss";
    case Kind::kOptimizerState:
      return "optimizer_state";
    case Kind::kScalar:
      return "scalar";
    case Kind::kOther:
      return "other";
    case Kind::kGroup:
      return "group";
    case Kind::kOperation:
      return "operation";
    case Kind::kCallSite:
      return "call_site";
  }
  return "other";
}

}  // namespace paramedic::store
