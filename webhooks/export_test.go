package webhooks

// AddFinalizer is the handler of the mutating webhooks.
var AddFinalizer = addFinalizer
