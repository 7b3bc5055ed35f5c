#pragma once
// A small interpreter of the tests' own stands for Python: objects are addresses, and what they
// answer is written into tables. References are counted in one number for all objects.

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace paramedic::probe {

struct FakePython {
  // Functions that were called, by name, with a '+' for each argument.
  std::vector<std::string> calls;
  std::map<void*, std::string> names;
  std::map<void*, void*> answers;  // of functions; `answer` of all others
  bool raises = false;
  // What an object has: attributes and items by name, items by number, numbers, types.
  std::map<std::pair<void*, void*>, void*> members;
  std::map<void*, std::vector<void*>> items;
  std::map<void*, long long> integers;
  std::map<void*, double> floats;
  std::map<void*, void*> types;
  std::map<void*, std::map<long long, void*>> dicts;  // by what the key is as an integer
  void* frame = nullptr;                              // that runs
  void* raises_in = nullptr;  // a function that raises when it is called with a tuple
  void* error = nullptr;      // that is on its way
  long long drawn = 0;        // from iterators
  // The attribute of an object that has no members; null: it has none.
  void* any_attribute = nullptr;
  long references = 0;
  ssize_t modules = 5;
  int none = 0, answer = 0, made = 0, number = 0;
  std::deque<int> tuples, keys;
};

extern FakePython python;

inline uint64_t address(const void* object) { return reinterpret_cast<uint64_t>(object); }

}  // namespace paramedic::probe
