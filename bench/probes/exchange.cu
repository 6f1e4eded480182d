// Two CTAs of a cluster write into each other's shared memory and read what the other wrote, in as few lines as that
// takes; every variant but the last is right by the PTX ISA's memory model. Run by bench/probes/racecheck.py.
#include <cooperative_groups.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
namespace cg = cooperative_groups;

enum Order { cluster_barrier, mbarrier_each, mbarrier_warp, mbarrier_one, stores_each, stores_one, nothing };

// Stores that tell the barrier beside their destination of their bytes.
template <Order ORDER> constexpr bool counted = ORDER == stores_each || ORDER == stores_one;

__device__ void arrive(uint32_t barrier, uint32_t rank) {
  uint32_t remote;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(barrier), "r"(rank));
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(remote) : "memory");
}

__device__ void wait(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{.reg .pred done; AGAIN: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;"
      " @!done bra AGAIN; }" ::"r"(barrier), "r"(parity) : "memory");
}

// All that this thread's warp, or its CTA, has done so far is told to the peer.
template <Order ORDER> __device__ void tell(uint32_t barrier, uint32_t peer) {
  if (ORDER == mbarrier_each || ORDER == stores_each) arrive(barrier, peer);
  if (ORDER == mbarrier_warp) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) arrive(barrier, peer);
  }
  if (ORDER == mbarrier_one || ORDER == stores_one) {
    __syncthreads();
    if (threadIdx.x == 0) arrive(barrier, peer);
  }
}

template <Order ORDER> __global__ void __cluster_dims__(2, 1, 1) exchange(float *out, int rounds) {
  __shared__ alignas(16) float slots[128 * 4];
  __shared__ alignas(8) uint64_t barriers[2];  // written, read
  auto cluster = cg::this_cluster();
  uint32_t written = (uint32_t)__cvta_generic_to_shared(barriers), read = written + 8;
  uint32_t arrivals = ORDER == mbarrier_each || ORDER == stores_each ? 128 : ORDER == mbarrier_warp ? 4 : 1;
  bool waits = ORDER != cluster_barrier && ORDER != nothing;
  if (threadIdx.x == 0)
    for (uint32_t barrier : {written, read})
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier),
                   "r"(counted<ORDER> && barrier == written ? 1 : arrivals));
  asm volatile("fence.mbarrier_init.release.cluster;");
  cluster.sync();
  uint32_t thread = threadIdx.x, peer = cluster.block_rank() ^ 1;
  uint32_t mine = (uint32_t)__cvta_generic_to_shared(&slots[4 * thread]), theirs;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(theirs) : "r"(mine), "r"(peer));
  uint32_t there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(written), "r"(peer));
  float sum = 0;
  long long begin = clock64();
  for (int round = 0; round < rounds; round++) {
    float value = thread + 1000.f * peer + round, x, y, z, w;
    if (counted<ORDER>) {
      if (thread == 0)
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 2048;" ::"r"(written) : "memory");
      asm volatile(
          "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1,%1,%1,%1}, [%2];" ::"r"(theirs),
          "f"(value), "r"(there) : "memory");
    } else
      asm volatile("st.shared::cluster.v4.f32 [%0], {%1,%1,%1,%1};" ::"r"(theirs), "f"(value) : "memory");
    if (ORDER == cluster_barrier) cluster.sync();
    if (!counted<ORDER>) tell<ORDER>(written, peer);
    if (waits) wait(written, round & 1);
    asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(x), "=f"(y), "=f"(z), "=f"(w) : "r"(mine) : "memory");
    sum += x;
    if (ORDER == cluster_barrier) cluster.sync();
    tell<ORDER>(read, peer);
    if (waits) wait(read, round & 1);
  }
  if (blockIdx.x + thread == 0) out[256] = (float)(clock64() - begin) / rounds;
  out[blockIdx.x * 128 + thread] = sum;
  cluster.sync();
}

int main(int count, char **arguments) {
  void (*kernels[])(float *, int) = {exchange<cluster_barrier>, exchange<mbarrier_each>, exchange<mbarrier_warp>,
                                     exchange<mbarrier_one>, exchange<stores_each>, exchange<stores_one>,
                                     exchange<nothing>};
  int order = count > 1 ? atoi(arguments[1]) : 0, rounds = count > 2 ? atoi(arguments[2]) : 1;
  float *out;
  float cycles = 0;
  cudaMalloc(&out, 257 * sizeof(float));
  kernels[order]<<<2, 128>>>(out, rounds);
  cudaError_t said = cudaDeviceSynchronize();
  cudaMemcpy(&cycles, out + 256, sizeof(float), cudaMemcpyDeviceToHost);
  printf("%s, %.0f cycles a round\n", cudaGetErrorString(said), cycles);
  return said != cudaSuccess;
}
