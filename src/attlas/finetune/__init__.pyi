from .experiment import Finetune as Finetune
