#pragma once
// What the watches over data have in common: the passes of all ranks, and who shares the work.

#include <string>
#include <tuple>
#include <utility>

#include "cluster/passes.h"
#include "cluster/peers.h"
#include "cluster/watch.h"

namespace paramedic::cluster {

class PassWatch : public Watch {
 public:
  using Watch::Watch;

  void on_event(const store::EventRow& row) override {
    if (const Pass* pass = passes_.take(row)) on_pass(*pass);
  }
  void on_model(const store::ModelRow& row) override { peers_.on_model(row); }
  void on_collective(const store::CollectiveRow& row) override { peers_.on_collective(row); }
  void tick(const Moment& moment) override {
    peers_.on_moment(moment);
    on_moment(moment);
  }

 protected:
  // A rank has told something new of it.
  virtual void on_pass(const Pass& pass) = 0;
  virtual void on_moment(const Moment&) {}

  [[nodiscard]] const Passes& passes() const { return passes_; }
  [[nodiscard]] const PeerFinder& peers() const { return peers_; }
  [[nodiscard]] const Pass* before(const Pass& pass) const {
    return passes_.find(pass.loader, pass.epoch - 1);
  }

 private:
  Passes passes_;
  PeerFinder peers_;
};

}  // namespace paramedic::cluster
