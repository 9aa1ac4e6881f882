// An 8 x 8 array of 8-bit products and a unit that changes scales: the commands `convolve` and `post` of qmlir's
// instruction set for a device of the contract `single`, on a memory of bytes. bench.py drives it from golden vectors.
//
// A command's fields are written to registers by their numbers below; `start` then executes the command. Addresses are
// bytes of the unit's memory. The host reads and writes eight bytes in a cycle while the unit is not busy.
`timescale 1ns / 1ps
module unit #(
    parameter ADDRESS = 17
) (
    input wire clk,
    input wire reset,
    input wire [5:0] field,                // the number of a register that `field_write` writes
    input wire [31:0] field_value,
    input wire field_write,
    input wire start,
    input wire [1:0] command,              // 1: convolve, 2: post
    output reg busy,
    output reg [31:0] written,             // bytes that the command has written
    input wire [ADDRESS-1:0] host_address,
    input wire [7:0] host_write,           // which of the eight bytes are written
    input wire [63:0] host_in,
    output reg [63:0] host_out
);
    // Registers of `convolve`
    localparam DATA = 0, WEIGHTS = 1, BIAS = 2, SUMS = 3, INIT = 4, ZERO_POINT = 5, WEIGHT_ZERO_POINT = 6, ROWS = 7,
        COLUMNS = 8, CHANNELS = 9, ROW_PITCH = 10, PIXEL_PITCH = 11, OUT_ROWS = 12, OUT_COLUMNS = 13, KERNEL_ROWS = 14,
        KERNEL_COLUMNS = 15, STRIDE_ROWS = 16, STRIDE_COLUMNS = 17, DILATION_ROWS = 18, DILATION_COLUMNS = 19, TOP = 20,
        LEFT = 21, OUT_CHANNELS = 22;
    // Registers of `post` and of its context; rows, columns and channels are those above
    localparam SOURCE = 32, SOURCE_BITS = 33, SOURCE_ROW = 34, SOURCE_PIXEL = 35, TARGET = 36, TARGET_ROW = 37,
        TARGET_PIXEL = 38, TABLE = 39, PER_CHANNEL = 40, INPUT_ZERO_POINT = 41, OUTPUT_ZERO_POINT = 42, LOWER = 43,
        UPPER = 44;
    localparam IDLE = 0, BEGIN = 1, LOAD = 2, MULTIPLY = 3, STORE = 4, POST = 5;
    localparam BIAS_FIRST = 1, ACCUMULATE = 2;

    reg [7:0] memory [0:(1 << ADDRESS) - 1];
    reg signed [31:0] r [0:63];
    reg [2:0] state;

    // Where the command is: the output pixel, the first of eight output channels, and the tap and channel of a term
    reg signed [31:0] row, column, first, i, j, channel, term, tile;
    reg signed [8:0] held [0:7];           // eight terms of the data, less the zero point
    reg signed [31:0] sums [0:7];
    reg [2:0] lane;

    integer n, k;
    reg signed [31:0] at_row, at_column, product, sum;

    function signed [31:0] word(input [31:0] address);
        word = {memory[address + 3], memory[address + 2], memory[address + 1], memory[address]};
    endfunction

    // The address of the sum of output channel first + n
    function [31:0] place(input integer n);
        place = r[SUMS] + 4 * ((row * r[OUT_COLUMNS] + column) * r[OUT_CHANNELS] + first + n);
    endfunction

    // The contract `single`: x * multiplier * 2^(shift - 31), rounded half up
    function signed [31:0] requantized(input signed [31:0] x, input signed [31:0] multiplier, input signed [31:0] shift);
        reg signed [79:0] scaled;
        reg [31:0] bits;
        begin
            bits = 31 - shift;
            scaled = x;
            scaled = scaled * multiplier;
            if (bits != 0) scaled = scaled + (80'sd1 <<< (bits - 1));
            scaled = scaled >>> bits;
            requantized = scaled[31:0];
        end
    endfunction

    function signed [31:0] clamped(input signed [31:0] x);
        clamped = x < r[LOWER] ? r[LOWER] : x > r[UPPER] ? r[UPPER] : x;
    endfunction

    // Goes on to the next of `columns` places of `rows` rows; behind the last one the unit is idle.
    task next_place(input signed [31:0] rows, input signed [31:0] columns);
        begin
            column <= column + 1 == columns ? 0 : column + 1;
            if (column + 1 == columns) begin
                row <= row + 1;
                if (row + 1 == rows) begin
                    busy <= 0;
                    state <= IDLE;
                end
            end
        end
    endtask

    wire last_term = term + 1 == r[KERNEL_ROWS] * r[KERNEL_COLUMNS] * r[CHANNELS];
    wire last_channel = channel + 1 == r[CHANNELS];
    wire last_tap = j + 1 == r[KERNEL_COLUMNS];

    always @(posedge clk)
        if (reset) begin
            busy <= 0;
            state <= IDLE;
            written <= 0;
        end else begin
            if (field_write) r[field] <= field_value;
            for (n = 0; n < 8; n = n + 1) host_out[8*n +: 8] <= memory[host_address + n];
            for (n = 0; n < 8; n = n + 1) if (host_write[n]) memory[host_address + n] <= host_in[8*n +: 8];
            case (state)
                IDLE: if (start) begin
                    busy <= 1;
                    written <= 0;
                    {row, column, first, channel} <= 0;
                    tile <= 0;
                    state <= command == 1 ? BEGIN : POST;
                end

                // Sums begin with zero, the bias or what is in memory.
                BEGIN: begin
                    for (n = 0; n < 8; n = n + 1)
                        if (first + n >= r[OUT_CHANNELS]) sums[n] <= 0;
                        else if (r[INIT] == BIAS_FIRST) sums[n] <= word(r[BIAS] + 4 * (first + n));
                        else if (r[INIT] == ACCUMULATE) sums[n] <= word(place(n));
                        else sums[n] <= 0;
                    for (k = 0; k < 8; k = k + 1) held[k] <= 0;
                    {i, j, channel, term} <= 0;
                    lane <= 0;
                    state <= LOAD;
                end

                // One term in a cycle; what lies outside the data contributes nothing.
                LOAD: begin
                    at_row = row * r[STRIDE_ROWS] + i * r[DILATION_ROWS] - r[TOP];
                    at_column = column * r[STRIDE_COLUMNS] + j * r[DILATION_COLUMNS] - r[LEFT];
                    if (at_row >= 0 && at_row < r[ROWS] && at_column >= 0 && at_column < r[COLUMNS])
                        held[lane] <= $signed(memory[r[DATA] + at_row * r[ROW_PITCH] + at_column * r[PIXEL_PITCH]
                                                     + channel]) - r[ZERO_POINT];
                    else held[lane] <= 0;
                    channel <= last_channel ? 0 : channel + 1;
                    if (last_channel) j <= last_tap ? 0 : j + 1;
                    if (last_channel && last_tap) i <= i + 1;
                    term <= term + 1;
                    lane <= lane + 1;
                    if (lane == 7 || last_term) state <= MULTIPLY;
                end

                // 8 x 8 products; weights lie in tiles of eight output channels by eight terms.
                MULTIPLY: begin
                    for (n = 0; n < 8; n = n + 1) begin
                        sum = sums[n];
                        for (k = 0; k < 8; k = k + 1) begin
                            product = held[k] * ($signed(memory[r[WEIGHTS] + 64 * tile + 8 * n + k]) - r[WEIGHT_ZERO_POINT]);
                            sum = sum + product;
                        end
                        sums[n] <= sum;
                    end
                    for (k = 0; k < 8; k = k + 1) held[k] <= 0;
                    tile <= tile + 1;
                    lane <= 0;
                    state <= term == r[KERNEL_ROWS] * r[KERNEL_COLUMNS] * r[CHANNELS] ? STORE : LOAD;
                end

                // The tiles of the next eight output channels follow; the next pixel begins with the first tile.
                STORE: begin
                    for (n = 0; n < 8; n = n + 1)
                        if (first + n < r[OUT_CHANNELS])
                            for (k = 0; k < 4; k = k + 1) memory[place(n) + k] <= sums[n][8*k +: 8];
                    written <= written + 4 * (r[OUT_CHANNELS] - first < 8 ? r[OUT_CHANNELS] - first : 8);
                    state <= BEGIN;
                    if (first + 8 < r[OUT_CHANNELS]) first <= first + 8;
                    else begin
                        first <= 0;
                        tile <= 0;
                        next_place(r[OUT_ROWS], r[OUT_COLUMNS]);
                    end
                end

                // One element in a cycle, to another scale.
                POST: begin
                    at_row = r[SOURCE] + row * r[SOURCE_ROW] + column * r[SOURCE_PIXEL];
                    sum = r[SOURCE_BITS] == 32 ? word(at_row + 4 * channel) : $signed(memory[at_row + channel]);
                    at_column = r[TABLE] + (r[PER_CHANNEL] != 0 ? 8 * channel : 0);
                    sum = requantized(sum - r[INPUT_ZERO_POINT], word(at_column), word(at_column + 4));
                    sum = clamped(sum + r[OUTPUT_ZERO_POINT]);
                    memory[r[TARGET] + row * r[TARGET_ROW] + column * r[TARGET_PIXEL] + channel] <= sum[7:0];
                    written <= written + 1;
                    channel <= last_channel ? 0 : channel + 1;
                    if (last_channel) next_place(r[ROWS], r[COLUMNS]);
                end
                default: state <= IDLE;
            endcase
        end
endmodule
