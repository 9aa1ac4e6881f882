// Which way does a stroke run? A network small enough to read: two 3x3 filters answer to horizontal and to vertical
// lines, a pool keeps the strongest answer of each quarter, and the last layer adds them up. Image and scores:
//   [1, rows 8, columns 8, 1], 0 is paper and 1 is ink -> [1, (horizontal, vertical)]
// Its `calib.observe` operations hold the range of each tensor, which is all that
//   qmlir-opt --quantize=schema=symmetric examples/digits/model.mlir
// needs to turn it into a network of integers.
func.func @main(%image: tensor<1x8x8x1xf32>) -> tensor<1x2xf32> {
  calib.observe %image {name = "image", range = [0.0, 1.0]} : tensor<1x8x8x1xf32>

  %filters = nn.constant <tensor<2x3x3x1xf32>, [
    -1.0, -1.0, -1.0,    2.0,  2.0,  2.0,   -1.0, -1.0, -1.0,
    -1.0,  2.0, -1.0,   -1.0,  2.0, -1.0,   -1.0,  2.0, -1.0]> : tensor<2x3x3x1xf32>
  %bias = nn.constant <tensor<2xf32>, [-1.5, -1.5]> : tensor<2xf32>
  %lines = nn.conv2d %image, %filters, %bias {padding = array<i64: 1, 1, 1, 1>}
    : tensor<1x8x8x1xf32>, tensor<2x3x3x1xf32>, tensor<2xf32> -> tensor<1x8x8x2xf32>
  calib.observe %lines {name = "lines", range = [-7.5, 4.5]} : tensor<1x8x8x2xf32>

  %ink = nn.relu %lines : tensor<1x8x8x2xf32> -> tensor<1x8x8x2xf32>
  calib.observe %ink {name = "ink", range = [0.0, 4.5]} : tensor<1x8x8x2xf32>

  %quarters = nn.max_pool2d %ink {window = array<i64: 4, 4>, strides = array<i64: 4, 4>}
    : tensor<1x8x8x2xf32> -> tensor<1x2x2x2xf32>
  %flat = nn.reshape %quarters {shape = array<i64: 1, 8>} : tensor<1x2x2x2xf32> -> tensor<1x8xf32>

  %votes = nn.constant <tensor<2x8xf32>, [
     1.0, -0.5,   1.0, -0.5,   1.0, -0.5,   1.0, -0.5,
    -0.5,  1.0,  -0.5,  1.0,  -0.5,  1.0,  -0.5,  1.0]> : tensor<2x8xf32>
  %scores = nn.fully_connected %flat, %votes : tensor<1x8xf32>, tensor<2x8xf32> -> tensor<1x2xf32>
  calib.observe %scores {name = "scores", range = [-9.0, 18.0]} : tensor<1x2xf32>
  func.return %scores : tensor<1x2xf32>
}
