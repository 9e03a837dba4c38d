from .training import Finetuned as Finetuned, finetune as finetune
