#include "registry.hpp"

#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace machine {

#define PK_ONCE(group) void register_##group##_once(Adder &);
#define PK_VARIED(group) void register_##group##_baseline(Adder &);
#include "groups.inc"
#undef PK_ONCE
#undef PK_VARIED
#define PK_ONCE(group)
#ifdef PK_HAS_v3
#define PK_VARIED(group) void register_##group##_v3(Adder &);
#include "groups.inc"
#undef PK_VARIED
#endif
#undef PK_ONCE

namespace {

class Collector final : public Adder {
  public:
    void operator()(const char *name, Handler run) override {
        for (const Named &known : found)
            if (known.name == name) throw std::logic_error("two handlers are named " + known.name);
        found.push_back({name, run});
    }
    std::vector<Named> found;
};

const char *best() {
    // For comparing variants on one machine.
    const char *asked = std::getenv("PORTAKERN_MACHINE_VARIANT");
    const auto allowed = [asked](const char *name) { return !asked || !*asked || !std::strcmp(asked, name); };
#ifdef PK_HAS_v3
    if (allowed("v3") && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
        __builtin_cpu_supports("bmi2"))
        return "v3";
#endif
    (void)allowed;
    return "baseline";
}

std::vector<Named> collect() {
    Collector add;
#define PK_ONCE(group) register_##group##_once(add);
#define PK_VARIED(group)
#include "groups.inc"
#undef PK_ONCE
#undef PK_VARIED
#define PK_ONCE(group)
#ifdef PK_HAS_v3
    if (!std::strcmp(variant(), "v3")) {
#define PK_VARIED(group) register_##group##_v3(add);
#include "groups.inc"
#undef PK_VARIED
        return add.found;
    }
#endif
#define PK_VARIED(group) register_##group##_baseline(add);
#include "groups.inc"
#undef PK_VARIED
#undef PK_ONCE
    return add.found;
}

}  // namespace

const char *variant() {
    static const char *const chosen = best();
    return chosen;
}

const std::vector<Named> &handlers() {
    static const std::vector<Named> all = collect();
    return all;
}

}  // namespace machine
