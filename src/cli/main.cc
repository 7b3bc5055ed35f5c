#include <exception>
#include <iostream>

#include "cli/program.h"

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    paramedic::cli::Console console = paramedic::cli::process_console();
    const int code = paramedic::cli::run_program(words, console);
    if (!std::cout.flush()) {
      std::cerr << "paramedic: cannot write to stdout\n";
      return code == 0 ? 2 : code;
    }
    return code;
  } catch (const std::exception& error) {
    // No exceptions of our own exist: this is memory exhausted or a library's fault.
    std::cerr << "paramedic: internal error: " << error.what() << "\n";
    return 70;
  }
}
