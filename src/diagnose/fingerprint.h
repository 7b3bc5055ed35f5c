#pragma once
// The same failure has the same fingerprint in another job, on another rank, with other paths and
// shapes. Fingerprints are stored by users: how they are made is never changed.

#include <optional>
#include <string>

#include "diagnose/traceback.h"
#include "diagnose/verdict.h"

namespace paramedic::diagnose {

// Of a frame stack: the place in the user's own code where it failed, else the innermost one.
std::optional<CodePlace> place_of(const Exception& exception);

// "category:module.function:mechanism".
std::string mechanism_fingerprint(const Verdict& verdict);
// 16 hexadecimal digits of the type, the stack without line numbers and the normalised message.
std::string exact_fingerprint(const Verdict& verdict, const Exception* exception);

}  // namespace paramedic::diagnose
