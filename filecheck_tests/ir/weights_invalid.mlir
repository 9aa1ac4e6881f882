// Constant data that contradicts itself.

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

// count: expected-error@+1 {{expected 3 values for tensor<3xi8>, got 2}}
%0 = nn.constant <tensor<3xi8>, [1, 2]> : tensor<3xi8>

// -----

// bytes: expected-error@+1 {{expected 2 values for tensor<2xf32>, got 1}}
%0 = nn.constant <tensor<2xf32>, "0x0000803f"> : tensor<2xf32>

// -----

// half_a_value: expected-error@+1 {{expected two hexadecimal digits for each byte, 4 bytes for a value}}
%0 = nn.constant <tensor<1xf32>, "0x00008"> : tensor<1xf32>

// -----

// no_digits: expected-error@+1 {{expected two hexadecimal digits for each byte, 1 bytes for a value}}
%0 = nn.constant <tensor<1xi8>, "0xzz"> : tensor<1xi8>

// -----

// too_large: expected-error@+1 {{128 is not a value of int8}}
%0 = nn.constant <tensor<1xi8>, [128]> : tensor<1xi8>

// -----

// negative: expected-error@+1 {{-1 is not a value of uint8}}
%0 = nn.constant <tensor<1xui8>, [-1]> : tensor<1xui8>

// -----

// fraction: expected-error@+1 {{1.5 is not a value of int8}}
%0 = nn.constant <tensor<1xi8>, [1.5]> : tensor<1xi8>

// -----

// no_point: expected-error@+1 {{1 is not a value of float32: a float has a point, as 1.0}}
%0 = nn.constant <tensor<1xf32>, [1]> : tensor<1xf32>

// -----

// overflow: expected-error@+1 {{1e+39 is not a value of float32}}
%0 = nn.constant <tensor<1xf32>, [1.0e39]> : tensor<1xf32>

// -----

// bits: expected-error@+1 {{is not a value of float16}}
%0 = nn.constant <tensor<1xf16>, [0x7fc00000]> : tensor<1xf16>

// -----

// truth: expected-error@+1 {{weights of type i1 must be bytes 0 and 1}}
%0 = nn.constant <tensor<1xi1>, "0x02"> : tensor<1xi1>

// -----

// element: expected-error@+1 {{weights cannot hold elements of type tf32}}
%0 = nn.constant <tensor<1xtf32>, [1.0]> : tensor<1xbf16>

// -----

// dynamic: expected-error@+1 {{weights need a shape without unknown dimensions, got tensor<?xi8>}}
%0 = nn.constant <tensor<?xi8>, [1]> : tensor<?xi8>

// -----

// no_tensor: expected-error@+1 {{expected the tensor type of the weights}}
%0 = nn.constant <vector<1xi8>, [1]> : tensor<1xi8>

// -----

// elided: expected-error@+1 {{these weights were elided when the module was printed; write it with -o}}
%0 = nn.constant <tensor<65xi8>, elided> : tensor<65xi8>
