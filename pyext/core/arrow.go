package main

// #include <stdlib.h>
// #include "core.h"
import "C"

import (
	"dlpack/pkg/arrow"
	"dlpack/pkg/dlpack"
	"dlpack/pkg/handover"
)

func isArrow(request *C.struct_request) bool {
	return request.protocol == C.PROTOCOL_ARROW_ARRAY || request.protocol == C.PROTOCOL_ARROW_STREAM
}

// readArrow describes the column in the request's arrays. It joins several arrays into one memory, which the answer
// owns.
func readArrow(request *C.struct_request, d *dlpack.Description, answer *C.struct_answer) error {
	source := arrow.Source{Protocol: "__arrow_c_array__", Schema: uint64(request.schema), Arrays: uint64(request.arrays),
		Count: int(request.array_count)}
	if request.protocol == C.PROTOCOL_ARROW_STREAM {
		source.Protocol = "__arrow_c_stream__"
	}
	if source.Count > 1 && request.terms.copy != C.COPY_NEVER {
		return join(source, d, answer)
	}
	if err := source.Describe(0, d); err != nil || source.Count <= 1 {
		return err
	}
	// If the column can't be exported for another reason, return that one.
	if err := d.Validate(new(dlpack.Tensor)); err != nil {
		return err
	}
	return dlpack.Unsupported(dlpack.Chunks, dlpack.Text("protocol", source.Protocol)).Cured(dlpack.CopyChunks)
}

// join is a separate function because its source is allocated: readArrow allocates nothing if it joins nothing.
func join(source arrow.Source, d *dlpack.Description, answer *C.struct_answer) error {
	return handover.Join(d, &source, source.Count, answerMemory{answer})
}

// dropJoined frees the memory into which chunks were joined, once a device has a copy of it.
func dropJoined(answer *C.struct_answer) {
	if answer.memory != nil && answer.device_memory != nil {
		C.free_aligned(answer.memory)
		answer.memory = nil
	}
}
