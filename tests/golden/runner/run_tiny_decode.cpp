// ascendfx_run_decode: launches plan `decode`, 50 launches of 34 kernels over 105 buffers, as often
// as it is told.
// Between two launches there is no allocation, lock, output, copy or wait.
#include "ascendfx_runner.h"

static_assert(ASCENDFX_RUNNER_VERSION == 2, "emitted for another version of ascendfx_runner.h");

namespace {

constexpr uint32_t kLaunchCount = 50;
constexpr uint32_t kArgumentCount = 233;

struct Launch {
    uint32_t kernel;     // index into the kernels of the plan
    uint32_t arguments;  // how many
};

struct Argument {
    uint32_t buffer;  // index into the buffers of the plan
    uint64_t offset;  // bytes from its start
};

constexpr Launch kLaunches[kLaunchCount + 1] = {
    {0, 4}, {1, 4}, {1, 4}, {2, 4}, {3, 4}, {4, 4}, {5, 4}, {6, 4}, {7, 9}, {8, 4}, {9, 4}, {10, 4},
    {11, 12}, {12, 5}, {13, 4}, {14, 4}, {15, 6}, {16, 4}, {17, 3}, {18, 4}, {19, 4}, {2, 4},
    {3, 4}, {4, 4}, {5, 4}, {6, 4}, {7, 9}, {8, 4}, {9, 4}, {10, 4}, {11, 12}, {12, 5}, {13, 4},
    {14, 4}, {15, 6}, {20, 4}, {21, 5}, {22, 5}, {23, 4}, {24, 4}, {25, 3}, {26, 4}, {14, 4},
    {27, 3}, {28, 4}, {29, 7}, {30, 4}, {31, 4}, {32, 4}, {33, 3},
    {0, 0},  // the end
};

// Of all launches, one after the other. Buffers shared with the host:
// 0 token_ids, 1 positions, 2 slots, 3 row_request, 4 block_table, 5 logit_rows, 6 sizes, 7 logits,
// 8 next_tokens
constexpr Argument kArguments[kArgumentCount + 1] = {
    // 0 decode_gather_rows_n64_f32: decode: gather_rows
    {13, 0}, {0, 0}, {46, 0}, {6, 0},
    // 1 decode_gather_rows_n8_f32: decode: gather_rows
    {14, 0}, {1, 0}, {47, 0}, {6, 0},
    // 2 decode_gather_rows_n8_f32: decode: gather_rows
    {15, 0}, {1, 0}, {48, 0}, {6, 0},
    // 3 decode_rms_norm_n64_f32: model.layers.0: rms_norm
    {46, 0}, {16, 0}, {49, 0}, {6, 0},
    // 4 decode_matmul_n48_k64_f32: model.layers.0: linear
    {49, 0}, {17, 0}, {50, 0}, {6, 0},
    // 5 decode_rms_norm_n48_f32: model.layers.0: rms_norm
    {50, 0}, {18, 0}, {51, 0}, {6, 0},
    // 6 decode_matmul_n96_k48_f32: model.layers.0: linear
    {51, 0}, {19, 0}, {52, 0}, {6, 0},
    // 7 decode_matmul_n80_k64_f32: model.layers.0: linear
    {49, 0}, {20, 0}, {53, 0}, {6, 0},
    // 8 decode_rotary_rms_norm_n16_f32: model.layers.0: rotary + rms_norm + rotary
    {52, 0}, {47, 0}, {48, 0}, {53, 0}, {21, 0}, {54, 0}, {55, 0}, {56, 0}, {6, 0},
    // 9 decode_write_cache_n64_f32: model.layers.0: cache_write
    {55, 0}, {2, 0}, {9, 0}, {6, 0},
    // 10 decode_write_cache_n16_f32: model.layers.0: cache_write
    {56, 0}, {2, 0}, {10, 0}, {6, 0},
    // 11 decode_matmul_b2_n64_k32_f32: model.layers.0: head_linear
    {52, 0}, {22, 0}, {57, 0}, {6, 0},
    // 12 decode_latent_decode_attention_h2_d64_f32: model.layers.0: ragged_attention
    {57, 0}, {54, 0}, {9, 0}, {10, 0}, {4, 0}, {1, 0}, {3, 0}, {58, 0}, {59, 0}, {60, 0}, {6, 0},
    {61, 0},
    // 13 decode_combine_attention_splits_h2_d64_f32: model.layers.0: ragged_attention
    {58, 0}, {59, 0}, {60, 0}, {62, 0}, {6, 0},
    // 14 decode_matmul_b2_n32_k64_f32: model.layers.0: head_linear
    {62, 0}, {23, 0}, {63, 0}, {6, 0},
    // 15 decode_matmul_n64_k64_f32: model.layers.0: linear
    {63, 0}, {24, 0}, {64, 0}, {6, 0},
    // 16 decode_add_rms_norm_n64_f32: model.layers.0: add + rms_norm
    {46, 0}, {64, 0}, {25, 0}, {65, 0}, {66, 0}, {6, 0},
    // 17 decode_matmul_n192_k64_f32: model.layers.0: linear
    {66, 0}, {26, 0}, {67, 0}, {6, 0},
    // 18 decode_swiglu_n96_f32: model.layers.0: swiglu
    {67, 0}, {68, 0}, {6, 0},
    // 19 decode_matmul_n64_k96_f32: model.layers.0: linear
    {68, 0}, {27, 0}, {69, 0}, {6, 0},
    // 20 decode_add_n64_f32: model.layers.0: add
    {65, 0}, {69, 0}, {70, 0}, {6, 0},
    // 21 decode_rms_norm_n64_f32: model.layers.1: rms_norm
    {70, 0}, {28, 0}, {71, 0}, {6, 0},
    // 22 decode_matmul_n48_k64_f32: model.layers.1: linear
    {71, 0}, {29, 0}, {72, 0}, {6, 0},
    // 23 decode_rms_norm_n48_f32: model.layers.1: rms_norm
    {72, 0}, {30, 0}, {73, 0}, {6, 0},
    // 24 decode_matmul_n96_k48_f32: model.layers.1: linear
    {73, 0}, {31, 0}, {74, 0}, {6, 0},
    // 25 decode_matmul_n80_k64_f32: model.layers.1: linear
    {71, 0}, {32, 0}, {75, 0}, {6, 0},
    // 26 decode_rotary_rms_norm_n16_f32: model.layers.1: rotary + rms_norm + rotary
    {74, 0}, {47, 0}, {48, 0}, {75, 0}, {33, 0}, {76, 0}, {77, 0}, {78, 0}, {6, 0},
    // 27 decode_write_cache_n64_f32: model.layers.1: cache_write
    {77, 0}, {2, 0}, {11, 0}, {6, 0},
    // 28 decode_write_cache_n16_f32: model.layers.1: cache_write
    {78, 0}, {2, 0}, {12, 0}, {6, 0},
    // 29 decode_matmul_b2_n64_k32_f32: model.layers.1: head_linear
    {74, 0}, {34, 0}, {79, 0}, {6, 0},
    // 30 decode_latent_decode_attention_h2_d64_f32: model.layers.1: ragged_attention
    {79, 0}, {76, 0}, {11, 0}, {12, 0}, {4, 0}, {1, 0}, {3, 0}, {80, 0}, {81, 0}, {82, 0}, {6, 0},
    {83, 0},
    // 31 decode_combine_attention_splits_h2_d64_f32: model.layers.1: ragged_attention
    {80, 0}, {81, 0}, {82, 0}, {84, 0}, {6, 0},
    // 32 decode_matmul_b2_n32_k64_f32: model.layers.1: head_linear
    {84, 0}, {35, 0}, {85, 0}, {6, 0},
    // 33 decode_matmul_n64_k64_f32: model.layers.1: linear
    {85, 0}, {36, 0}, {86, 0}, {6, 0},
    // 34 decode_add_rms_norm_n64_f32: model.layers.1: add + rms_norm
    {70, 0}, {86, 0}, {37, 0}, {87, 0}, {88, 0}, {6, 0},
    // 35 decode_matmul_n8_k64_f32: model.layers.1: linear
    {88, 0}, {38, 0}, {89, 0}, {6, 0},
    // 36 decode_route_topk_e8_k2: model.layers.1: route_topk
    {89, 0}, {39, 0}, {90, 0}, {91, 0}, {6, 0},
    // 37 decode_dispatch_experts_e8_k2: model.layers.1: dispatch_experts
    {91, 0}, {92, 0}, {93, 0}, {94, 0}, {6, 0},
    // 38 decode_gather_rows_pairs_n64_f32: model.layers.1: gather_rows
    {88, 0}, {92, 0}, {95, 0}, {6, 0},
    // 39 decode_grouped_matmul_e8_n64_k64_f32: model.layers.1: grouped_linear
    {95, 0}, {40, 0}, {94, 0}, {96, 0},
    // 40 decode_swiglu_pairs_n32_f32: model.layers.1: swiglu
    {96, 0}, {97, 0}, {6, 0},
    // 41 decode_grouped_matmul_e8_n64_k32_f32: model.layers.1: grouped_linear
    {97, 0}, {41, 0}, {94, 0}, {98, 0},
    // 42 decode_matmul_n64_k64_f32: model.layers.1: linear
    {88, 0}, {42, 0}, {99, 0}, {6, 0},
    // 43 decode_swiglu_n32_f32: model.layers.1: swiglu
    {99, 0}, {100, 0}, {6, 0},
    // 44 decode_matmul_n64_k32_f32: model.layers.1: linear
    {100, 0}, {43, 0}, {101, 0}, {6, 0},
    // 45 decode_combine_experts_n64_k2_f32: model.layers.1: combine_experts + add + add
    {98, 0}, {93, 0}, {90, 0}, {101, 0}, {87, 0}, {102, 0}, {6, 0},
    // 46 decode_gather_rows_requests_n64_f32: decode: gather_rows
    {102, 0}, {5, 0}, {103, 0}, {6, 0},
    // 47 decode_rms_norm_requests_n64_f32: decode: rms_norm
    {103, 0}, {44, 0}, {104, 0}, {6, 0},
    // 48 decode_matmul_requests_n96_k64_f32: decode: linear
    {104, 0}, {45, 0}, {7, 0}, {6, 0},
    // 49 decode_argmax_n96_f32: decode: argmax
    {7, 0}, {8, 0}, {6, 0},
    {0, 0},  // the end
};

// Launches every kernel once. Returns 0, or the status of the launch that failed and its index.
int32_t RunStep(const AscendfxLauncher* launcher, void* const* arguments, uint32_t* failed) {
    for (uint32_t launch = 0; launch < kLaunchCount; ++launch) {
        const uint32_t count = kLaunches[launch].arguments;
        const int32_t status =
            launcher->launch(launcher, kLaunches[launch].kernel, arguments, count);
        if (status != 0) {
            *failed = launch;
            return status;
        }
        arguments += count;
    }
    return 0;
}

}  // namespace

extern "C" void ascendfx_bind_decode(void* const* buffers, void** arguments) {
    for (uint32_t i = 0; i < kArgumentCount; ++i) {
        arguments[i] = static_cast<char*>(buffers[kArguments[i].buffer]) + kArguments[i].offset;
    }
}

extern "C" int32_t ascendfx_run_decode(const AscendfxLauncher* launcher, void* const* arguments,
                                       uint32_t steps, AscendfxRun* run) {
    const AscendfxCounts before = *launcher->counts;
    *run = AscendfxRun{};
    int32_t status = 0;
    while (run->steps < steps) {
        status = RunStep(launcher, arguments, &run->launch);
        if (status != 0) break;
        ++run->steps;
    }
    run->counts.launches = launcher->counts->launches - before.launches;
    run->counts.copies = launcher->counts->copies - before.copies;
    run->counts.syncs = launcher->counts->syncs - before.syncs;
    return status;
}
