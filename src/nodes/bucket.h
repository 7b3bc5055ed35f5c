#pragma once
// A store of objects as S3 has them: whole objects by name, nothing can be appended. Any thread.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace paramedic::nodes {

class Bucket {
 public:
  Bucket() = default;
  Bucket(const Bucket&) = delete;
  Bucket& operator=(const Bucket&) = delete;
  virtual ~Bucket() = default;

  // Names have '/' between their parts and are below what the bucket was opened with.
  virtual Status put(const std::string& name, std::string_view bytes) = 0;
  // kNotFound when there is none.
  virtual Result<std::string> get(const std::string& name) = 0;
  virtual Status remove(const std::string& name) = 0;
  // Names of all objects below `folder`, "" for all, sorted; empty when there are none.
  virtual Result<std::vector<std::string>> list(const std::string& folder) = 0;
};

// "s3://BUCKET/PATH?region=…&endpoint_override=HOST:PORT&scheme=http", credentials from where the
// AWS command line has them. One at a time in the life of a process. An error with a hint when this
// program was built without S3.
Result<std::unique_ptr<Bucket>> open_bucket(const std::string& url);

}  // namespace paramedic::nodes
