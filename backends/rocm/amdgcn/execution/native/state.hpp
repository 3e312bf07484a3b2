// The state of an AMD wave as this interpreter keeps it, and a decoded instruction.
//
// Plain data only: these types are shared by files compiled for several instruction sets of the host, so nothing here may
// have an inline function that the linker could take from the wrong one (see lanes.hpp).
#pragma once

#include <cstddef>
#include <cstdint>

namespace machine {

constexpr int kLanes = 64;      // storage; a wave of 32 uses the lower half
constexpr int kVectors = 512;   // v0..v255 are rows 0..255, a0..a255 rows 256..511
constexpr int kScalars = 256;   // by logical number, one numbering for all generations:
constexpr int kVcc = 106;       // and 107
constexpr int kTrapTemps = 108; // ttmp0..ttmp15
constexpr int kM0 = 124;
constexpr int kNull = 125;      // reads 0, writes are dropped
constexpr int kExec = 126;      // and 127
constexpr int kFlatScratch = 128;   // and 129
constexpr int kXnackMask = 130;     // and 131
constexpr int kSharedBase = 132;    // and 133: src_shared_base
constexpr int kPrivateBase = 134;   // and 135: src_private_base
constexpr int kSharedLimit = 136;   // and 137
constexpr int kPrivateLimit = 138;  // and 139
constexpr int kScc = 140;       // as a source operand; the flag itself is Wave::scc
constexpr int kVccz = 141;      // as source operands, computed when read
constexpr int kExecz = 142;

struct Wave;
struct Op;
struct Workgroup;
struct Program;

using Handler = void (*)(Wave &, const Op &);

enum Kind : uint8_t { kNone = 0, kVector = 1, kScalar = 2, kConstant = 3 };

// How an operand is read or written; each type also says how an inline constant is encoded (Python does that).
enum Type : uint8_t {
    kB32, kF32, kB16, kF16, kBF16, kB64, kF64, kPacked16, kWide,  // kWide: some number of dwords without arithmetic meaning
    kLaneMask,  // one bit a lane: 2 scalar registers in wave64, 1 in wave32
};

enum OperandModifier : uint8_t { kNegate = 1, kAbsolute = 2, kSignExtend = 4 };

struct Operand {
    Kind kind;
    uint8_t dwords;     // how many registers from `reg` on
    uint8_t modifiers;  // OperandModifier, set only where the form allows them
    Type type;
    uint32_t reg;       // row of Wave::v, number in Wave::s, or index into Program::constants
};

enum DppKind : uint8_t { kNoDpp = 0, kDpp16 = 1, kDpp8 = 2 };

// What stands behind the operands. Only what the mnemonic's form allows is ever set; everything else is an error at decoding.
struct Modifiers {
    uint8_t clamp;
    uint8_t omod;      // 0 none, 1 *2, 2 *4, 3 /2
    uint8_t op_sel;    // bit k: source k takes its upper half; bit 3 (VOP3): the destination's upper half is written
    uint8_t op_sel_hi; // VOP3P: bit k: source k's upper half feeds the upper result (all ones unless said otherwise)
    uint8_t neg_lo, neg_hi;
    uint8_t cbsz, abid, blgp;
    uint8_t dpp_kind;    // DppKind
    uint8_t row_mask, bank_mask, bound_ctrl, fetch_inactive;
    uint16_t dpp;        // dpp_ctrl as encoded (CDNA3 ISA, "DPP")
    uint32_t dpp8;       // 8 selectors of 3 bits
    uint8_t sdwa;        // 1 where the next five hold
    uint8_t dst_sel, dst_unused, src0_sel, src1_sel;  // as encoded (CDNA3 ISA, "SDWA")
    uint8_t gds, lds, offen, idxen;
    uint8_t cache;       // bit 0 glc/sc0 (an atomic returns), 1 slc/sc1, 2 dlc, 3 nt, 4 scc
    uint8_t extra;       // of single instructions, see their form
};

enum Flag : uint32_t {
    kWritesExec = 1,    // the runner refreshes Wave::mask afterwards
    kOwnTaint = 2,      // the handler propagates undefinedness itself
    kControl = 4,       // may end the wave's turn
    kHalves = 16,       // two dwords at once: each half of the result from a half of each source, as op_sel and op_sel_hi say
    kCrossed = 32,      // the lower half from the first source, the upper from the second (v_pk_mov_b32)
    kLowFirst = 64,     // the lower dword of the result depends on lower dwords only
    kMovesBits = 128,   // the bits of the sources but the first, a count, go elsewhere as they are
    kMovesBitsBy = 256, // the same, with the count last
    kPaired = 8,        // issued together with the next, which sees nothing of it (RDNA3 ISA, "Dual issue")
};

// What executes it; hazard rules and the counters go by this.
enum Unit : uint8_t {
    kSalu, kValu, kTrans, kMatrix, kScalarMemory, kVectorMemory, kFlatMemory, kLocalMemory, kBranch, kMessage,
};

// The decoded form that Python packs (execution/encoding.py) and the runner executes.
struct Op {
    Handler run;         // resolved from `handler` when the program is loaded
    uint32_t handler;
    uint32_t line;       // of the assembly text
    uint32_t flags;      // Flag
    Unit unit;
    uint8_t destinations, sources;
    uint8_t passes;      // matrix instructions: how long they take, in passes of 4 cycles
    Operand d[2];
    Operand s[5];        // in the order of the text; an operand that is read and written stands in both
    int32_t immediate[5];
    Modifiers m;
};

// A value spread over lanes, so that vector handlers read constants as they read registers.
struct Constant {
    alignas(64) uint32_t low[kLanes];
    alignas(64) uint32_t high[kLanes];
};

struct Mode {  // the MODE register as far as arithmetic goes (CDNA3 ISA)
    bool flush32_in, flush32_out, flush16_64_in, flush16_64_out;  // denormals of f32, and of f16 and f64
    uint8_t round32, round16_64;                                  // 0 nearest even, 1 up, 2 down, 3 towards zero
    bool ieee, clamp_nan_to_zero, saturate_f16;
};

struct Pending;  // what is in flight (waits.hpp)

// Of one vector register.
struct Marks {
    uint64_t lanes;   // where it was never written, or computed from what was not
    uint64_t partly;  // where this is so of some bits alone, which Wave::vague has

    operator uint64_t() const { return lanes; }
    Marks &operator=(uint64_t x) {
        lanes = x, partly = 0;
        return *this;
    }
    Marks &operator|=(uint64_t x) { return *this = lanes | x; }
    Marks &operator&=(uint64_t x) { return *this = lanes & x; }
    Marks &operator^=(uint64_t x) { return *this = lanes ^ x; }
    Marks &operator=(const Marks &x) { return *this = x.lanes; }
};

struct Wave {
    alignas(64) uint32_t v[kVectors][kLanes];
    alignas(64) uint32_t mask[kLanes];           // EXEC as all ones or zeros a lane
    alignas(64) uint32_t broadcast[5][2][kLanes];  // scalar sources spread over lanes, by operand
    alignas(64) uint32_t modified[5][2][kLanes];   // sources after modifiers, by operand
    alignas(64) uint32_t result[4][kLanes];        // scratch of handlers
    uint32_t s[kScalars];
    Marks undefined_v[kVectors];
    uint32_t vague[kVectors][kLanes];            // the undefined bits, where they are not all
    uint32_t undefined_s[kScalars];              // by bit
    bool scc, undefined_scc;
    bool full;                                   // every lane is active
    bool recording;                              // stores to global memory are remembered (aside.hpp)
    int lanes;                                   // 64 or 32
    int number;                                  // in its workgroup
    uint32_t pc;                                 // index of the next instruction
    uint64_t executed;
    uint32_t barriers;                           // it has arrived at
    uint8_t state;                               // State (group.hpp)
    uint8_t *scratch, *scratch_defined;          // its lanes' private memory, one lane after another
    Mode mode;
    const Program *program;
    Workgroup *group;
    Pending *pending;
};

// Ends the simulation with a report that names the instruction at `op`; `lane` is -1 where none is to blame.
[[noreturn]] void fail(const Wave &w, const Op &op, const char *kind, const char *message, int lane = -1);

// Collects handlers by name.
class Adder {
  public:
    virtual void operator()(const char *name, Handler run) = 0;

  protected:
    ~Adder() = default;
};

}  // namespace machine
