package webhooks

// KeepFinalizer is the handler of the mutating webhooks.
var KeepFinalizer = keepFinalizer
