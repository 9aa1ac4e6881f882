// Constants that contradict themselves, and resources that are not there.

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

// odd: expected-error@+1 {{hexadecimal digits come in pairs, got 3 of them}}
%0 = arith.constant dense<"0x012"> : tensor<2xi8>

// -----

// no_digits: expected-error@+1 {{expected hexadecimal digits only}}
%0 = arith.constant dense<"0x01 2"> : tensor<2xi8>

// -----

// no_prefix: expected-error@+1 {{expected hexadecimal digits behind 0x}}
%0 = arith.constant dense<"0102"> : tensor<2xi8>

// -----

// count: expected-error@+1 {{tensor<3xf32> takes 12 bytes, or 4 for a splat, got 8}}
%0 = arith.constant dense<"0x0000803F0000803F"> : tensor<3xf32>

// -----

// count_of_bits: expected-error@+1 {{20 elements of i1 take 3 bytes, got 2}}
%0 = arith.constant dense<"0x0000"> : tensor<20xi1>

// -----

// element_type: expected-error@+1 {{constants cannot hold elements of type i128}}
%0 = arith.constant dense<"0x00"> : tensor<20xi128>

// -----

// unknown_size: expected-error@+1 {{Dense literal attribute should have a static shape}}
%0 = arith.constant dense<"0x00"> : tensor<?xi8>

// -----

// elided: expected-error@+1 {{this constant was elided when the module was printed}}
%0 = arith.constant dense_resource<__elided__> : tensor<20xi8>

// -----

// no_section: expected-error@+1 {{the file holds no resource w; print the module again without eliding its resources}}
%0 = arith.constant dense_resource<w> : tensor<2xi8>

// -----

func.func @no_such_key() {
  // expected-error@+1 {{the file holds no resource conv_1; did you mean conv1?}}
  %0 = arith.constant dense_resource<conv_1> : tensor<2xi8>
  func.return
}
{-# dialect_resources: { builtin: { conv1: "0x010000000102" } } #-}

// -----

// no_key: expected-error@+1 {{expected the key of a resource}}
%0 = arith.constant dense_resource<7> : tensor<2xi8>

// -----

func.func @size_of_a_resource() {
  // expected-error@+1 {{tensor<3xi8> takes 3 bytes, got 2}}
  %0 = arith.constant dense_resource<w> : tensor<3xi8>
  func.return
}
{-# dialect_resources: { builtin: { w: "0x010000000102" } } #-}

// -----

func.func @size_of_weights() {
  // expected-error@+1 {{expected 4 bytes for a value, the resource holds 2}}
  %0 = nn.constant <tensor<3xf32>, dense_resource<w>> : tensor<3xf32>
  func.return
}
{-# dialect_resources: { builtin: { w: "0x010000000102" } } #-}

// -----

func.func @truth() {
  // expected-error@+1 {{elements of i1 must be bytes 0 and 1}}
  %0 = arith.constant dense_resource<w> : tensor<2xi1>
  func.return
}
{-# dialect_resources: { builtin: { w: "0x010000000102" } } #-}

// -----

{-#
  dialect_resources: {
    builtin: {
      // expected-error@+1 {{resource w: the alignment in the first 4 bytes must be a power of two, got 3}}
      w: "0x030000000102"
    }
  }
#-}

// -----

// expected-error@+1 {{resource w: expected the alignment in the first 4 bytes}}
{-# dialect_resources: { builtin: { w: "0x0400" } } #-}

// -----

// expected-error@+1 {{resource w: expected a string of hexadecimal digits that begins with 0x}}
{-# dialect_resources: { builtin: { w: "04000000" } } #-}

// -----

// expected-error@+1 {{resource w: hexadecimal digits come in pairs, got 1 of them}}
{-# dialect_resources: { builtin: { w: "0x040000000" } } #-}

// -----

// expected-error@+1 {{expected the bytes of w as a string}}
{-# dialect_resources: { builtin: { w: true } } #-}

// -----

// expected-error@+1 {{the resources of dialect other cannot be kept, only those of builtin}}
{-# dialect_resources: { other: { w: "0x0400000001" } } #-}

// -----

// expected-error@+1 {{unknown kind of resources things}}
{-# things: {} #-}

// -----

// expected-error@+1 {{expected :}}
{-# dialect_resources { builtin: {} } #-}

// -----

// expected-error@+1 {{expected ,}}
{-# dialect_resources: { builtin: { v: "0x01000000" w: "0x01000000" } } #-}

// -----

// expected-error@+1 {{resource v is given twice}}
{-# dialect_resources: { builtin: { v: "0x01000000", v: "0x01000000" } } #-}

// -----

// expected-error@+1 {{expected }, got the end of the text}}
{-# dialect_resources: { builtin: { v: "0x01000000"
