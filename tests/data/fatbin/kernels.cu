// nvcc -arch=sm_90a -fatbin --compress-mode=MODE -o MODE.fatbin kernels.cu    (CUDA 13.0; size, speed, none)
extern "C" __global__ void scale(float *x, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= factor;
}
template <int N> __global__ void sums(float *x, const float *y) {
    float total = 0;
#pragma unroll
    for (int i = 0; i < N; i++) total += y[i * 32 + threadIdx.x] * y[i + threadIdx.x];
    x[threadIdx.x] = total;
}
template __global__ void sums<32>(float *, const float *);
