/* Kernels as TVM compiles them: one function per operator, called with its inputs and then its outputs. */
#include <stdint.h>

typedef struct {
  void *data;
  int32_t device_type, device_id, ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} Tensor;

typedef union {
  int64_t integer;
  double real;
  Tensor *tensor;
} Argument;

#define OPERATOR(name) int name(Argument *a, int32_t *codes, int32_t count, Argument *out, int32_t *out_code)
#define F(i) ((float *)((char *)a[i].tensor->data + a[i].tensor->byte_offset))
#define AXIS(i, n) (a[i].tensor->shape[n])

/* The runtime fills this in: its thread pool. */
typedef struct {
  void *sync;
  int32_t tasks;
} Group;
typedef int (*Task)(int task, Group *group, void *data);
int (*__TVMBackendParallelLaunch)(Task task, void *data, int tasks) = 0;

static int nothing(int task, Group *group, void *data) {
  if (task == 0) *(float *)data = (float)group->tasks;
  return 0;
}

/* () -> how many threads the runtime runs a parallel operator on */
OPERATOR(count_threads) { return __TVMBackendParallelLaunch(nothing, F(1), 0); }

/* (image, mean) -> the mean over the channels of the squared differences */
OPERATOR(squared_distance) {
  int64_t channels = AXIS(0, 1), pixels = AXIS(0, 2) * AXIS(0, 3);
  for (int64_t p = 0; p < pixels; p++) {
    float sum = 0;
    for (int64_t c = 0; c < channels; c++) {
      float d = F(0)[c * pixels + p] - F(1)[c];
      sum += d * d;
    }
    F(2)[p] = sum / channels;
  }
  return 0;
}

/* (map, 3 x 3 weights) -> the map filtered, zeros outside it */
OPERATOR(filter3) {
  int64_t h = AXIS(0, 2), w = AXIS(0, 3);
  for (int64_t y = 0; y < h; y++)
    for (int64_t x = 0; x < w; x++) {
      float sum = 0;
      for (int64_t i = -1; i <= 1; i++)
        for (int64_t j = -1; j <= 1; j++)
          if (y + i >= 0 && y + i < h && x + j >= 0 && x + j < w)
            sum += F(0)[(y + i) * w + x + j] * F(1)[(i + 1) * 3 + j + 1];
      F(2)[y * w + x] = sum;
    }
  return 0;
}

/* map -> its highest value */
OPERATOR(maximum) {
  float best = F(0)[0];
  for (int64_t p = 1; p < AXIS(0, 2) * AXIS(0, 3); p++)
    if (F(0)[p] > best) best = F(0)[p];
  F(1)[0] = best;
  return 0;
}
