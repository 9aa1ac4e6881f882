// What an observer refuses: (C1), (C2).

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

%x = "test.op"() : () -> tensor<2xf32>
// c1_order: expected-error@+1 {{the range of "x" must be two finite numbers in order, got [1.0, 0.0]; profile it again}}
calib.observe %x {name = "x", range = [1.0, 0.0]} : tensor<2xf32>

// -----

%x = "test.op"() : () -> tensor<2xf32>
// c1_count: expected-error@+1 {{the range of "x" must be two finite numbers in order, got [1.0]}}
calib.observe %x {name = "x", range = [1.0]} : tensor<2xf32>

// -----

%x = "test.op"() : () -> tensor<2xf32>
// c1_infinite: expected-error@+1 {{the range of "x" must be two finite numbers in order, got [0.0, inf]}}
calib.observe %x {name = "x", range = [0.0, 0x7ff0000000000000 : f64]} : tensor<2xf32>

// -----

%x = "test.op"() : () -> tensor<2xf32>
// c1_nan: expected-error@+1 {{the range of "x" must be two finite numbers in order, got [nan, 1.0]}}
calib.observe %x {name = "x", range = [0x7ff8000000000000 : f64, 1.0]} : tensor<2xf32>

// -----

%x = "test.op"() : () -> tensor<2xi8>
// c2: expected-error@+1 {{'calib.observe' learns the range of float tensors, got tensor<2xi8>}}
calib.observe %x {name = "x"} : tensor<2xi8>

// -----

%x = "test.op"() : () -> tensor<2xf32>
// c1_average: expected-error@+1 {{the average of "x" must be two finite numbers in order, got [1.0, 0.0]}}
calib.observe %x {name = "x", average = [1.0, 0.0]} : tensor<2xf32>

// -----

%x = "test.op"() : () -> tensor<2xf32>
// histogram: expected-error@+1 {{a histogram needs counts of 0 or more, and k in [-1074, 1023]; profile again}}
calib.observe %x {name = "x", histogram = #calib.histogram<k = 0, first = 0, counts = [-1]>} : tensor<2xf32>

// -----

%x = "test.op"() : () -> tensor<2xf32>
// histogram_beyond_64_bits: expected-error@+1 {{the counts of a histogram are signed 64-bit integers}}
calib.observe %x {name = "x", histogram = #calib.histogram<k = 0, first = 0, counts = [9223372036854775808]>} : tensor<2xf32>

// -----

%x = "test.op"() : () -> tensor<2xf32>
// bytes_that_are_no_text: expected-error@+1 {{should be of base attribute string}}
calib.observe %x {name = "\FF\00"} : tensor<2xf32>
