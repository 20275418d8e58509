package main

// #include <stdlib.h>
// #include "core.h"
import "C"

import (
	"dlpack/pkg/arrow"
	"dlpack/pkg/dlpack"
	"dlpack/pkg/handover"
)

// arrowProtocol returns the name of the request's protocol if it is one of Arrow's, or "".
func arrowProtocol(request *C.struct_request) string {
	switch request.protocol {
	case C.PROTOCOL_ARROW_ARRAY:
		return "__arrow_c_array__"
	case C.PROTOCOL_ARROW_STREAM:
		return "__arrow_c_stream__"
	case C.PROTOCOL_ARROW_DEVICE_ARRAY:
		return "__arrow_c_device_array__"
	case C.PROTOCOL_ARROW_DEVICE_STREAM:
		return "__arrow_c_device_stream__"
	}
	return ""
}

func sourceOf(request *C.struct_request) arrow.Source {
	return arrow.Source{Protocol: arrowProtocol(request), Schema: uint64(request.schema), Arrays: uint64(request.arrays),
		Count: int(request.array_count), Device: deviceOf(request.device), SyncEvent: uint64(request.sync_event),
		Binary: request.facts&C.FACT_BYTES != 0}
}

// producerOf returns the stream or the event that completes the request's memory.
func producerOf(request *C.struct_request) (int64, error) {
	if request.array_count == 0 || request.sync_event == 0 {
		return int64(request.producer_stream), nil
	}
	source := sourceOf(request)
	return source.Producer()
}

// readArrow describes the column in the request's arrays. It joins several arrays, and the columns of a table, into one
// memory, which the answer owns.
func readArrow(request *C.struct_request, d *dlpack.Description, answer *C.struct_answer) error {
	source := sourceOf(request)
	onCPU := source.Device.Type == dlpack.CPU
	mayCopy := request.terms.copy != C.COPY_NEVER && onCPU
	err := readColumn(source, mayCopy, d, answer)
	if r, ok := err.(*dlpack.Refusal); ok && r.Saying == dlpack.Columns && onCPU {
		return readTable(source, mayCopy, d, answer)
	}
	return err
}

func readColumn(source arrow.Source, mayCopy bool, d *dlpack.Description, answer *C.struct_answer) error {
	if source.Count > 1 && mayCopy {
		return join(source, d, answer)
	}
	if err := source.Describe(0, d); err != nil || source.Count <= 1 {
		return err
	}
	// If the column can't be exported for another reason, return that one.
	if err := d.Validate(new(dlpack.Tensor)); err != nil {
		return err
	}
	cure := dlpack.JoinWithLibrary
	if source.Device.Type == dlpack.CPU {
		cure = dlpack.CopyChunks
	}
	return dlpack.Unsupported(dlpack.Chunks, dlpack.Text("protocol", source.Protocol)).Cured(cure)
}

// join is a separate function because its source is allocated: readArrow allocates nothing if it joins nothing.
func join(source arrow.Source, d *dlpack.Description, answer *C.struct_answer) error {
	return handover.Join(d, &source, source.Count, answerMemory{answer})
}

// readTable copies a table of several columns into one matrix, which the answer owns.
func readTable(source arrow.Source, mayCopy bool, d *dlpack.Description, answer *C.struct_answer) error {
	table := arrow.Table{Source: source}
	columns, err := table.Columns()
	if err != nil {
		return err
	}
	if !mayCopy {
		return table.Refuse(columns)
	}
	return handover.Matrix(d, &table, columns, source.Count, answerMemory{answer})
}

// dropJoined frees the memory into which chunks or columns were joined, once a device has a copy of it.
func dropJoined(answer *C.struct_answer) {
	if answer.memory != nil && answer.device_memory != nil {
		C.free_aligned(answer.memory)
		answer.memory = nil
	}
}
